#!/usr/bin/env bash
# Compares the lab with pgbench: runs pgbench and `paceline bench sql` in alternation, with the same script and the same
# PostgreSQL, and prints the transactions per second of both and their ratio. All servers listen on loopback, use a temporary
# folder and end with the script. Results are meaningless on a busy machine.
# Environment variables: SECONDS_EACH (10), ROUNDS (3), CLIENTS (1 16 64), PROTOCOLS (simple extended prepared), SCALE (10),
# SCRIPT (a file; by default a SELECT and an UPDATE of random accounts), PACELINE (target/dist/paceline).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${SECONDS_EACH:-10} rounds=${ROUNDS:-3} scale=${SCALE:-10} script=${SCRIPT:-}
read -ra clients <<<"${CLIENTS:-1 16 64}"
read -ra protocols <<<"${PROTOCOLS:-simple extended prepared}"
port=5470
source scripts/servers.sh

start() {
    start_postgres $port -c max_connections=400 -c shared_buffers=256MB -c max_wal_size=4GB -c checkpoint_timeout=1h
    "$bin/pgbench" -i -q -s "$scale" -h 127.0.0.1 -p $port -U postgres postgres >/dev/null 2>&1
}

write_script() {
    [[ -z $script ]] || { cp "$script" "$work/script.sql"; return; }
    cat > "$work/script.sql" <<'SQL'
\set reader random(1, 100000 * :scale)
\set writer random(1, 100000 * :scale)
\set delta random(-5000, 5000)
BEGIN;
SELECT abalance FROM pgbench_accounts WHERE aid = :reader;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :writer;
END;
SQL
}

# Transactions per second of pgbench.
by_pgbench() {
    "$bin/pgbench" -n -h 127.0.0.1 -p $port -U postgres -M "$1" -c "$2" -j 1 -T "$seconds" -D "scale=$scale" \
        -f "$work/script.sql" postgres 2>"$work/pgbench.log" | sed -n 's/^tps = \([0-9.]*\).*/\1/p' | head -n 1
}

# Transactions per second of the lab, from the record of the run.
by_lab() {
    rm -f "$work/results.jsonl"
    "$paceline" bench sql "$work/script.sql" --against "direct=postgres://postgres@127.0.0.1:$port/postgres" --define "scale=$scale" \
        --protocol "$1" --clients "$2" --threads 1 --warmup 0s --duration "${seconds}s" --rounds 1 --json "$work/results.jsonl" >"$work/lab.log" 2>&1
    sed -n 's/.*"units":[0-9]*,"rate":\([0-9.]*\).*/\1/p' "$work/results.jsonl"
}

start
write_script
printf '%-10s %8s %14s %14s %8s\n' protocol clients pgbench lab ratio
for protocol in "${protocols[@]}"; do
    for count in "${clients[@]}"; do
        : >"$work/pgbench"
        : >"$work/lab"
        for _ in $(seq "$rounds"); do
            by_pgbench "$protocol" "$count" >>"$work/pgbench"
            by_lab "$protocol" "$count" >>"$work/lab"
        done
        one=$(median <"$work/pgbench") other=$(median <"$work/lab")
        printf '%-10s %8s %14s %14s %8s\n' "$protocol" "$count" "$one" "$other" "$(ratio "$other" "$one")"
    done
done
