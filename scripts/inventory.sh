#!/usr/bin/env bash
# Measures sales of one article with sysbench on PostgreSQL alone, PgBouncer and Paceline, in alternation, and prints a table of
# events per second and of the 95th percentile of the latency, outside and inside a transaction. Paceline's clients mark the update
# with hints. Checks that no sale is lost. All servers listen on loopback, use a temporary folder and end with the script.
# Environment variables: SECONDS_EACH (4), ROUNDS (3), THREADS (1 8 32 128 256 512 1024; direct at most 256), PGBOUNCER (pgbouncer).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${SECONDS_EACH:-4} rounds=${ROUNDS:-3}
read -ra all_threads <<<"${THREADS:-1 8 32 128 256 512 1024}"
server=5440 bouncer=5441 ours=5442
source scripts/servers.sh
ulimit -n "$(ulimit -Hn)"

inventory() {
    local port=$1
    shift
    sysbench --db-driver=pgsql --pgsql-host=127.0.0.1 --pgsql-port="$port" --pgsql-user=postgres --pgsql-password= --pgsql-db=postgres \
        scripts/sysbench/oltp_inventory.lua "$@"
}

sold() { psql -X -At -h 127.0.0.1 -p $server -U postgres -d postgres -c 'SELECT sold FROM inventory'; }

# sell PORT HINT THREADS TRANSACTION: prints events per second and the 95th percentile in milliseconds.
sell() {
    local port=$1 hint=$2 threads=$3 transaction=$4 before after done_events out
    before=$(sold)
    out=$(inventory "$port" --hint="$hint" --transaction="$transaction" --threads="$threads" --time="$seconds" --percentile=95 run)
    after=$(sold)
    done_events=$(sed -n 's/.*total number of events: *\([0-9]*\).*/\1/p' <<<"$out")
    [[ $((after - before)) == "$done_events" ]] || { echo "$((after - before)) pieces are sold, $done_events sales were acknowledged" >&2; exit 1; }
    awk -v events="$done_events" '/total time:/ { time = $3 + 0 } /95th percentile:/ { p95 = $3 } END { printf "%.0f %.1f\n", events / time, p95 }' <<<"$out"
}

# column N FILE: the median of a column.
column() { if [[ -s $2 ]]; then cut -d ' ' -f "$1" "$2" | median; else echo –; fi; }

start_postgres $server -c max_connections=400 -c shared_buffers=256MB
start_pgbouncer $bouncer 2
start_paceline $ours --set max_client_conn=10000
wait_for $bouncer
wait_for $ours
inventory $server prepare >/dev/null

for transaction in off on; do
    echo "transaction: $transaction"
    echo '| threads | direct | p95 | PgBouncer | p95 | Paceline | p95 | × direct | × PgBouncer |'
    echo '|---|---|---|---|---|---|---|---|---|'
    for threads in "${all_threads[@]}"; do
        rm -f "$work"/{direct,bouncer,ours}
        for _ in $(seq "$rounds"); do
            [[ $threads -gt 256 ]] || sell $server none "$threads" $transaction >>"$work/direct"
            sell $bouncer none "$threads" $transaction >>"$work/bouncer"
            sell $ours comment "$threads" $transaction >>"$work/ours"
        done
        touch "$work/direct"
        direct=$(column 1 "$work/direct") pgbouncer_tps=$(column 1 "$work/bouncer") paceline_tps=$(column 1 "$work/ours")
        echo "| $threads | $direct | $(column 2 "$work/direct") | $pgbouncer_tps | $(column 2 "$work/bouncer") | $paceline_tps | $(column 2 "$work/ours") | $(ratio "$paceline_tps" "${direct/–/0}") | $(ratio "$paceline_tps" "$pgbouncer_tps") |"
    done
done
