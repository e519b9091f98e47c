#!/usr/bin/env bash
# Counts the instructions of Paceline per request by workload, with valgrind's callgrind, and prints a table; then those that hold
# a lock which all threads take. All servers listen on loopback, use a temporary folder and end with the script. Environment
# variables: ONLY (a regular expression of workloads), ROUNDS (500, requests that a client sends), KEEP (a folder for the files of
# callgrind, for callgrind_annotate), PACELINE (another binary).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
server=5490 ours=5491
source scripts/servers.sh

# instructions NAME: prints the instructions per request of a workload.
instructions() {
    local file=$work/callgrind.out port=$((ours++)) requests pid
    valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file="$file" "$paceline" \
        --upstream "postgres://postgres@127.0.0.1:$server" --listen "127.0.0.1:$port" --set busy_poll=0 --set hotspot_for_autocommit=true \
        --set default_pool_size=1 2>"$work/valgrind.log" & pid=$!
    pids+=("$pid")
    wait_for "$port"
    requests=$(scripts/cost.py "$port" "$pid" "$1")
    kill -INT "$pid"
    wait "$pid" || true
    [[ -z ${KEEP:-} ]] || cp "$file" "$KEEP/$1.out"
    printf '| %s |%s\n' "$1" "$(under_locks "$file" "$requests")" >>"$work/locks"
    awk -v requests="$requests" '/^(summary|totals):/ { total = $2 } END { printf "%d", total / requests }' "$file"
}

# Functions that spend nearly all their instructions under a lock that all threads take, by name in the profile. Pool::… hold the
# lock of the pool: to take an idle connection, to return one and start what is next, to enter the line, to take a group out of the
# line (a part of the return), and to read the analysis of a template. Templates::… hold the locks of the template cache.
sections=(Pool::take_idle Pool::check_in Pool::enter_line Pool::dequeue Pool::analysis Templates::find Templates::plain_for)

# under_locks FILE REQUESTS: prints the instructions per request in each of the sections, with what these functions call.
under_locks() {
    local section
    callgrind_annotate --auto=no --inclusive=yes --threshold=100 --show-percs=no "$1" 2>/dev/null | sed 's/<impl [a-z_:]*::\([A-Za-z]*\)>/\1/' >"$work/functions"
    for section in "${sections[@]}"; do
        awk -v name="::$section [" -v requests="$2" 'index($0, name) { gsub(",", "", $1); if ($1 > most) most = $1 }
            END { printf " %.0f |", most / requests }' "$work/functions"
    done
}

start_postgres $server -c shared_buffers=256MB
sql "CREATE TABLE hot (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO hot SELECT g, 0 FROM generate_series(0, 99) g"
sql "CREATE TABLE edge (id bigint, target bigint, unixnano bigint NOT NULL, status int NOT NULL, UNIQUE (id, target))"
sql "CREATE TABLE job (id bigint PRIMARY KEY); INSERT INTO job SELECT generate_series(1, 10000)"
printf '| %-28s | %12s |\n|%s|%s|\n' request instructions ------------------------------ -------------:
scripts/cost.py | grep -E "${ONLY:-}" | while read -r name; do printf '| %-28s | %12s |\n' "$name" "$(instructions "$name")"; done
printf '\nUnder locks that all threads take\n\n| request |%s\n|---|%s\n' "$(printf ' %s |' "${sections[@]}")" "$(printf -- '---:|%.0s' "${sections[@]}")"
cat "$work/locks"
