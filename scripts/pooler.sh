#!/usr/bin/env bash
# Measures Paceline as a pooler beside PgBouncer (from Debian) and PostgreSQL alone, with pgbench in alternation, and prints
# tables: SELECT 1 and pgbench -S by number of clients and by protocol, with and without TLS; logins per second with
# SCRAM-SHA-256; resident memory per idle client. The tables show medians of transactions per second, and medians of the ratio in
# each round, which vary less when the speed of the machine changes. A measurement that other virtual machines disturbed is
# repeated. All servers listen on loopback, use a temporary folder and end with the script.
# Environment variables: SECONDS_EACH (4), ROUNDS (3), CLIENTS (1 8 64 256 2000 8000), SCALE (10), POOL (2, server connections of
# each pooler), IDLE (8000 clients), PARTS (memory speed tls logins; memory comes first, in new processes; builtin_scripts: the
# scripts of pgbench, up to 256 clients; threads: Paceline with itself, by worker_threads), WORKER_THREADS (1 2; what threads
# compares), PGBOUNCER (pgbouncer; the path of another version).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${SECONDS_EACH:-4} rounds=${ROUNDS:-3} scale=${SCALE:-10} pool=${POOL:-2} idle=${IDLE:-8000}
read -ra clients <<<"${CLIENTS:-1 8 64 256 2000 8000}"
read -ra parts <<<"${PARTS:-memory speed tls logins}"
read -ra numbers_of_threads <<<"${WORKER_THREADS:-1 2}"
server=5480 bouncer=5481 ours=5482
source scripts/servers.sh
ulimit -n "$(ulimit -Hn)"

# PgBouncer before 1.21 does not support prepared statements in transaction pooling.
version=$("$pgbouncer" --version | awk '{ print $2; exit }')
prepares=$([[ $(printf '%s\n' 1.21 "$version" | sort -V | head -n 1) == 1.21 ]] && echo yes || echo no)

make_certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
        -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
    chmod 644 "$work/key.pem"
}

# The secret that PostgreSQL derives from a password, for the user lists of both poolers.
make_users() {
    sql "SET password_encryption = 'scram-sha-256'; CREATE ROLE app LOGIN PASSWORD 'app'"
    psql -X -At -h 127.0.0.1 -p $server -U postgres -c "SELECT format('\"app\" \"%s\"', rolpassword) FROM pg_authid WHERE rolname = 'app'" >"$work/userlist.txt"
}

start_servers() {
    start_postgres $server -c max_connections=400 -c shared_buffers=512MB -c max_wal_size=8GB -c ssl=off
    "$bin/pgbench" -i -q -s "$scale" -h 127.0.0.1 -p $server -U postgres postgres >/dev/null 2>&1
    echo 'SELECT 1;' >"$work/one.sql"
    make_certificate
    make_users
    local tls=(client_tls_sslmode=allow "client_tls_key_file=$work/key.pem" "client_tls_cert_file=$work/cert.pem")
    local prepared=()
    [[ $prepares == no ]] || prepared=(max_prepared_statements=200)
    start_pgbouncer $bouncer "$pool" "${tls[@]}" "${prepared[@]}"
    start_pgbouncer $((bouncer + 10)) "$pool" "auth_type = scram-sha-256" "auth_file = $work/userlist.txt"
    sets=(--set "default_pool_size=$pool")
    for line in "${tls[@]}" max_client_conn=10000; do sets+=(--set "$line"); done
    start_paceline $ours "${sets[@]}"
    start_paceline $((ours + 10)) --set "default_pool_size=$pool" --set auth_type=scram-sha-256 --set "auth_file=$work/userlist.txt"
    for port in $bouncer $ours $((bouncer + 10)) $((ours + 10)); do wait_for $port; done
}

# tps PORT CLIENTS ARGUMENTS…: prints transactions per second without the time for connecting, which pgbench -T includes. Prints
# nothing if pgbench fails.
tps() {
    local port=$1 count=$2 out
    shift 2
    out=$("$bin/pgbench" -n -h 127.0.0.1 -p "$port" -U "${user:-postgres}" -c "$count" -j 1 -T "$((seconds + count / 500))" "$@" postgres 2>>"$work/pgbench.log") || return 0
    sed -n 's/^tps = \([0-9.]*\) .*/\1/p' <<<"$out" | head -n 1
}

# Steal time of the processors, in hundredths of a second.
stolen() { awk 'NR == 1 { print $9 }' /proc/stat; }

# Like tps, but repeats the measurement if the steal time exceeds a tenth of one processor. The fifth result is final.
quiet_tps() {
    local try before out=
    for try in 1 2 3 4 5; do
        before=$(stolen)
        out=$(tps "$@")
        (($(stolen) - before > 10 * (seconds + $2 / 500))) || break
    done
    echo "$out"
}

# row NAME CLIENTS DIRECT(yes or no) ARGUMENTS…: arguments are those of pgbench. Each round begins with another target.
row() {
    local name=$1 count=$2 targets=(bounced carried) round target
    [[ $3 == no ]] || targets+=(alone)
    shift 3
    [[ $prepares == yes || " $* " != *" prepared "* ]] || targets=("${targets[@]:1}")
    local -A all=() this
    for round in $(seq "$rounds"); do
        this=()
        for target in "${targets[@]:round % ${#targets[@]}}" "${targets[@]:0:round % ${#targets[@]}}"; do
            this[$target]=$(quiet_tps "${port_of[$target]}" "$count" "$@")
            all[$target]+=" ${this[$target]}"
        done
        all[to_alone]+=" $(ratio "${this[carried]}" "${this[alone]:-}")"
        all[to_bounced]+=" $(ratio "${this[carried]}" "${this[bounced]:-}")"
    done
    printf '| %s | %s |' "$name" "$count"
    for target in alone bounced carried; do printf ' %.0f |' "$(median <<<"${all[$target]:-}")" | sed 's/ 0 |/ – |/'; done
    for target in to_alone to_bounced; do printf ' %.2f |' "$(tr -d – <<<"${all[$target]}" | median)" | sed 's/ 0.00 |/ – |/'; done
    printf '\n'
}

header() {
    printf '\n%s\n\n| workload | clients | direct | PgBouncer | Paceline | × direct | × PgBouncer |\n|---|---|---|---|---|---|---|\n' "$1"
}

speed() {
    # Both poolers offer TLS, and libpq would use it.
    export PGSSLMODE=disable
    local -A port_of=([alone]=$server [bounced]=$bouncer [carried]=$ours)
    header "Transactions per second"
    for mode in simple prepared; do
        for count in "${clients[@]}"; do
            local direct=yes
            ((count <= 256)) || direct=no
            row "\`SELECT 1\`, $mode" "$count" $direct -M $mode -f "$work/one.sql"
            row "\`pgbench -S\`, $mode" "$count" $direct -M $mode -S
        done
    done
}

# pgbench's own scripts.
builtin_scripts() {
    export PGSSLMODE=disable
    local -A port_of=([alone]=$server [bounced]=$bouncer [carried]=$ours)
    header "pgbench's own scripts, transactions per second"
    for mode in simple prepared; do
        for count in "${clients[@]}"; do
            ((count <= 256)) || continue
            row "TPC-B, $mode" "$count" yes -M $mode
            row "\`-N\`, $mode" "$count" yes -M $mode -N
            row "\`-S\`, $mode" "$count" yes -M $mode -S
        done
    done
}

tls() {
    local -A port_of=([alone]=$server [bounced]=$bouncer [carried]=$ours)
    export PGSSLMODE=require
    header "The same over TLS (PostgreSQL alone has none here)"
    for mode in simple prepared; do
        for count in "${clients[@]}"; do
            row "\`SELECT 1\`, $mode" "$count" no -M $mode -f "$work/one.sql"
            row "\`pgbench -S\`, $mode" "$count" no -M $mode -S
        done
    done
}

# compare NAME CLIENTS ARGUMENTS…: a row of Paceline by number of threads; the ratio is that of the last number to the first.
compare() {
    local name=$1 count=$2 targets=("${numbers_of_threads[@]}") round target
    shift 2
    local -A all=() this
    for round in $(seq "$rounds"); do
        this=()
        for target in "${targets[@]:round % ${#targets[@]}}" "${targets[@]:0:round % ${#targets[@]}}"; do
            this[$target]=$(quiet_tps "${port_of[$target]}" "$count" "$@")
            all[$target]+=" ${this[$target]}"
        done
        all[ratio]+=" $(ratio "${this[${targets[-1]}]}" "${this[${targets[0]}]}")"
    done
    printf '| %s | %s |' "$name" "$count"
    for target in "${targets[@]}"; do printf ' %.0f |' "$(median <<<"${all[$target]}")"; done
    printf ' %.2f |\n' "$(tr -d – <<<"${all[ratio]}" | median)"
}

threads() {
    local -A port_of=()
    local number port=$((ours + 20)) security mode count
    for number in "${numbers_of_threads[@]}"; do
        port_of[$number]=$((port++))
        start_paceline "${port_of[$number]}" "${sets[@]}" --set "worker_threads=$number"
        wait_for "${port_of[$number]}"
    done
    for security in disable require; do
        export PGSSLMODE=$security
        printf '\nPaceline by worker_threads, transactions per second (sslmode=%s)\n\n| workload | clients |%s ratio |\n|---|---|%s---|\n' \
            "$security" "$(printf ' %s |' "${numbers_of_threads[@]}")" "$(printf -- '---|%.0s' "${numbers_of_threads[@]}")"
        for mode in simple prepared; do
            for count in "${clients[@]}"; do
                compare "\`SELECT 1\`, $mode" "$count" -M $mode -f "$work/one.sql"
                compare "\`pgbench -S\`, $mode" "$count" -M $mode -S
            done
        done
    done
}

logins() {
    export PGSSLMODE=disable
    local -A port_of=([bounced]=$((bouncer + 10)) [carried]=$((ours + 10)))
    local user=app
    export PGPASSWORD=app
    header "Logins per second with SCRAM-SHA-256, each with one \`SELECT 1\`"
    for count in 1 8 64; do row "\`pgbench -C\`" "$count" no -C -f "$work/one.sql"; done
    unset PGPASSWORD
}

resident() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }

# hold NAME PORT PID: opens idle clients and prints the memory per client.
hold() {
    local before after
    before=$(resident "$3")
    coproc python3 scripts/hold.py "$2" "$idle"
    read -r _ <&"${COPROC[0]}"
    after=$(resident "$3")
    echo >&"${COPROC[1]}"
    wait "$COPROC_PID" || true
    awk -v name="$1" -v before="$before" -v after="$after" -v idle="$idle" 'BEGIN { printf "| %s | %.1f | %.1f | %.2f |\n", name, before / 1024, after / 1024, (after - before) / idle }'
}

memory() {
    printf '\nResident memory\n\n| pooler | before, MiB | with %s idle clients, MiB | KiB each |\n|---|---|---|---|\n' "$idle"
    hold PgBouncer $bouncer "${pids[0]}"
    hold Paceline $ours "${pids[2]}"
}

start_servers
echo "PostgreSQL $("$bin/postgres" --version | awk '{print $3}'), PgBouncer $version, $(nproc) cores, pgbench -j 1 at scale $scale, poolers with $pool server connections, medians of $rounds rounds of $seconds s in alternation"
for part in "${parts[@]}"; do "$part"; done
