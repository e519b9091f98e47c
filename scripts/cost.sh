#!/usr/bin/env bash
# Counts the instructions of Paceline per request by workload, with valgrind's callgrind, and prints a table. All servers listen
# on loopback, use a temporary folder and end with the script. Environment variables: ONLY (a regular expression of workloads),
# ROUNDS (500, requests that a client sends), KEEP (a folder for the files of callgrind, for callgrind_annotate), PACELINE (another
# binary).
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
    awk -v requests="$requests" '/^(summary|totals):/ { total = $2 } END { printf "%d", total / requests }' "$file"
}

start_postgres $server -c shared_buffers=256MB
sql "CREATE TABLE hot (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO hot SELECT g, 0 FROM generate_series(0, 99) g"
sql "CREATE TABLE edge (id bigint, target bigint, unixnano bigint NOT NULL, status int NOT NULL, UNIQUE (id, target))"
sql "CREATE TABLE job (id bigint PRIMARY KEY); INSERT INTO job SELECT generate_series(1, 10000)"
printf '| %-28s | %12s |\n|%s|%s|\n' request instructions ------------------------------ -------------:
scripts/cost.py | grep -E "${ONLY:-}" | while read -r name; do printf '| %-28s | %12s |\n' "$name" "$(instructions "$name")"; done
