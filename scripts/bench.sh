#!/usr/bin/env bash
# Measures PostgreSQL alone, PgBouncer (with a pool of 2, its best setting here) and Paceline with pgbench, in alternation, and
# prints a table of medians. All servers listen on loopback, use a temporary folder and end with the script.
# Environment variables: SECONDS_EACH (8), ROUNDS (3), ROWS (5000000), READ_KEYS (200, with 10,000 rows each), ZIPF (1.5, the
# exponent of the power law of keys in shared reads), ONLY (names of workloads; all by default).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${SECONDS_EACH:-8} rounds=${ROUNDS:-3} rows=${ROWS:-5000000} only=${ONLY:-} keys=${READ_KEYS:-200} zipf=${ZIPF:-1.5}
server=5460 bouncer=5461 plain=5462 auto=5463 four=5464 reorder=5465
source scripts/servers.sh

start_servers() {
    start_postgres $server -c max_connections=400 -c shared_buffers=512MB -c max_wal_size=8GB
    start_pgbouncer $bouncer 2
    start_paceline $plain
    start_paceline $auto --set hotspot_for_autocommit=true --set default_pool_size=1
    start_paceline $four --set default_pool_size=4
    start_paceline $reorder --set hotspot_for_autocommit=true --set default_pool_size=1 --set queue_reorder_time=30s
    for port in $bouncer $plain $auto $four $reorder; do wait_for "$port"; done
}

make_tables() {
    sql "CREATE TABLE hot (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO hot VALUES (1, 0)"
    sql "CREATE TABLE many (id int PRIMARY KEY, n int NOT NULL DEFAULT 0)"
    sql "INSERT INTO many SELECT g, 0 FROM generate_series(1, $rows) g"
    sql "VACUUM ANALYZE"
    sql "CHECKPOINT"
    echo 'UPDATE /*+ COMMIT_ON_SUCCESS */ hot SET n = n + 1 WHERE id = 1;' > "$work/hot.sql"
    echo 'SELECT 1;' > "$work/one.sql"
    printf '\\set id random(1, %s)\nUPDATE many SET n = n + 1 WHERE id = :id;\n' "$rows" > "$work/random.sql"
    { cat "$work/random.sql"; echo 'UPDATE many SET n = n + 2 WHERE id = :id;'; } > "$work/storm.sql"
}

# The edges of a social graph, and the degree of a celebrity.
fill_edges() {
    sql "SET client_min_messages = warning; DROP TABLE IF EXISTS edge, degree"
    sql "CREATE TABLE edge (id bigint, target bigint, unixnano bigint NOT NULL, status int NOT NULL, UNIQUE (id, target))"
    sql "CREATE TABLE degree (id bigint PRIMARY KEY, degree bigint NOT NULL)"
    cat > "$work/edge.sql" <<'SQL'
\set id random_zipfian(1, 100000, 1.2)
\set target random(1, 100000)
\set unixnano random(1, 1000000000)
INSERT INTO edge (id, target, unixnano, status) VALUES (:id, :target, :unixnano, 0) ON CONFLICT (id, target) DO UPDATE SET unixnano = EXCLUDED.unixnano, status = EXCLUDED.status WHERE edge.unixnano < EXCLUDED.unixnano;
SQL
    echo 'INSERT INTO degree (id, degree) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET degree = degree.degree + EXCLUDED.degree;' > "$work/degree.sql"
}

# Fills the queue of variant c with orders (one statement takes an order and files it), and the table of jobs for claims.
fill_queues() {
    sql "SET client_min_messages = warning; DROP TABLE IF EXISTS t_order_q, t_order_u, jobs"
    sql "CREATE TABLE t_order_q (id bigserial PRIMARY KEY, order_id uuid UNIQUE, cts timestamp NOT NULL)"
    sql "CREATE TABLE t_order_u (id bigserial PRIMARY KEY, order_id uuid UNIQUE, cts timestamp NOT NULL, uts timestamp NOT NULL, status int NOT NULL)"
    sql "INSERT INTO t_order_q (order_id, cts) SELECT gen_random_uuid(), now() FROM generate_series(1, 500000)"
    sql "CREATE TABLE jobs (id bigserial PRIMARY KEY, state text NOT NULL DEFAULT 'ready', worker int)"
    sql "INSERT INTO jobs SELECT FROM generate_series(1, 500000)"
    sql "CREATE INDEX ON jobs (id) WHERE state = 'ready'"
    sql "VACUUM ANALYZE t_order_q"
    sql "VACUUM ANALYZE jobs"
}

write_queue_scripts() {
    cat > "$work/queue.sql" <<'SQL'
WITH tmp AS (DELETE FROM t_order_q WHERE ctid = (SELECT ctid FROM t_order_q WHERE pg_try_advisory_xact_lock(id) ORDER BY id LIMIT 1) RETURNING order_id, cts) INSERT INTO t_order_u (order_id, cts, uts, status) SELECT order_id, cts, now(), 1 FROM tmp;
SQL
    sql "CREATE TABLE events (id bigserial PRIMARY KEY, client int NOT NULL, note text, at timestamptz NOT NULL DEFAULT now())"
    echo "INSERT INTO events (client, note) VALUES (:client_id, 'a small row');" > "$work/insert.sql"
    cat > "$work/claim.sql" <<'SQL'
UPDATE jobs SET state = 'running', worker = :client_id WHERE id = (SELECT id FROM jobs WHERE state = 'ready' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id;
SQL
}

# Air fares: reads of 10,000 contiguous rows. See reads.py for the reason why pgbench does not read them.
make_fares() {
    sql "CREATE TABLE test (id int, info text, typeid int, crt_time timestamp, mod_time timestamp)"
    sql "INSERT INTO test SELECT g, md5(g::text), (g - 1) / 10000 + 1, now(), now() FROM generate_series(1, $keys * 10000) g"
    sql "CREATE INDEX ON test (typeid)"
    sql "VACUUM ANALYZE test"
}

# tps PORT SCRIPT CLIENTS MODE: prints transactions per second.
tps() {
    local out
    case $2 in
        read) python3 scripts/reads.py "$1" "$keys" 0 "$3" "$seconds"; return ;;
        share) python3 scripts/reads.py "$1" "$keys" "$zipf" "$3" "$seconds"; return ;;
        queue-old) with_old_snapshot tps "$1" queue "$3" "$4"; return ;;
    esac
    if ! out=$(pgbench -n -h 127.0.0.1 -p "$1" -U postgres -f "$work/$2.sql" -c "$3" -j 1 -M "$4" -T "$seconds" postgres 2>&1); then
        echo "$out" >&2
        exit 1
    fi
    sed -n 's/^tps = \([0-9]*\).*/\1/p' <<<"$out"
}

# Runs a command while a transaction holds a snapshot of the queue: rows that the command takes remain in the table and its
# indexes.
with_old_snapshot() {
    psql -q -X -h 127.0.0.1 -p "$server" -U postgres -d postgres >/dev/null 2>&1 \
        -c "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t_order_q LIMIT 1; SELECT pg_sleep(600)" &
    local snapshot=$!
    until [[ $(psql -X -At -h 127.0.0.1 -p "$server" -U postgres -d postgres -c "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()") == 1 ]]; do :; done
    "$@"
    sql "SELECT FROM pg_stat_activity, pg_terminate_backend(pid) WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()" >/dev/null
    wait "$snapshot" || true
}

# workload NAME SCRIPT CLIENTS MODE PACELINE_PORT [no-others]
workload() {
    [[ -z $only || " $only " == *" $2 "* ]] || return 0
    # PgBouncer before 1.21, as in Debian 12, does not support prepared statements in transaction pooling.
    local direct= bounced= ours= bouncer_mode=simple before=true
    case $2 in
        queue | queue-old | claim) before=fill_queues ;;
        edge | degree) before=fill_edges ;;
    esac
    for _ in $(seq "$rounds"); do
        if [[ ${6:-} != alone ]]; then
            $before
            direct+=" $(tps $server "$2" "$3" "$4")"
            $before
            bounced+=" $(tps $bouncer "$2" "$3" "$bouncer_mode")"
        fi
        $before
        ours+=" $(tps "$5" "$2" "$3" "$4")"
    done
    local d b o
    d=$(median <<<"$direct") b=$(median <<<"$bounced") o=$(median <<<"$ours")
    echo "| $1 | ${d:--} | ${b:--} | $o | $(ratio "$o" "$d") | $(ratio "$o" "$b") |"
}

# 8,000 clients, compared with the best rate of direct connections with any number of clients.
storm() {
    [[ -z $only || " $only " == *" storm "* ]] || return 0
    local ours= best=0 clients direct at
    declare -A directs
    for _ in $(seq "$rounds"); do
        for clients in 10 64 256; do directs[$clients]+=" $(tps $server storm "$clients" prepared)"; done
        ours+=" $(seconds=$((seconds * 3)) tps $auto storm 8000 prepared)"
    done
    for clients in 10 64 256; do
        direct=$(median <<<"${directs[$clients]}")
        if ((${direct%.*} > best)); then best=${direct%.*} at=$clients; fi
    done
    ours=$(median <<<"$ours")
    echo "| two updates of a random row of $rows, un-hinted, prepared: Paceline with 8,000 clients and a pool of 1, direct with $at (its best of 10, 64, 256) | $best | - | $ours | $(ratio "$ours" "$best") | - |"
}

start_servers
make_tables
write_queue_scripts
if [[ -z $only || " $only " == *" read "* || " $only " == *" share "* ]]; then make_fares; fi
echo "PostgreSQL $("$bin/postgres" --version | awk '{print $3}'), $(nproc) cores, fsync on, pgbench -j 1, medians of $rounds runs of $seconds s in alternation, transactions per second"
echo
echo "| workload | direct | PgBouncer, pool 2, simple | Paceline | × direct | × PgBouncer |"
echo "|---|---|---|---|---|---|"
workload "hot row, 256 clients, prepared" hot 256 prepared $plain
workload "hot row, 256 clients, simple" hot 256 simple $plain
workload "hot row, 1,024 clients, prepared" hot 1024 prepared $plain alone
workload "hot row, 1 client, prepared" hot 1 prepared $plain
workload "\`SELECT 1\`, 64 clients, prepared" one 64 prepared $plain
workload "random rows of $rows, 64 clients, un-hinted, prepared, Paceline with a pool of 1" random 64 prepared $auto
workload "queue, variant c (take and file an order), 256 consumers, un-hinted, prepared" queue 256 prepared $auto
workload "the same while a transaction holds the oldest snapshot" queue-old 256 prepared $auto
workload "the same, with \`queue_reorder_time = 30s\`" queue-old 256 prepared $reorder
workload "claims by UPDATE … SKIP LOCKED, 256 consumers, un-hinted, prepared" claim 256 prepared $auto
workload "plain INSERT of a small row, 256 clients, un-hinted, prepared" insert 256 prepared $auto
workload "edge upsert, ids by a power law, 160 clients, un-hinted, prepared" edge 160 prepared $auto
workload "degree counter upsert on one hot id, 160 clients, un-hinted, prepared" degree 160 prepared $auto
storm
workload "read of 10,000 rows, uniform over $keys keys, 64 clients, Paceline with a pool of 4" read 64 extended $four
workload "read of 10,000 rows, keys by a power law (exponent $zipf), 64 clients, Paceline with a pool of 4" share 64 extended $four
orders=$(psql -X -At -h 127.0.0.1 -p "$server" -U postgres -d postgres -c "SELECT count(*) || ' orders in both tables, ' || count(DISTINCT order_id) || ' distinct' FROM (SELECT order_id FROM t_order_q UNION ALL SELECT order_id FROM t_order_u) o" 2>/dev/null || true)
echo "${orders:+
queue afterwards: $orders}"
total=$(psql -X -At -h 127.0.0.1 -p "$server" -U postgres -d postgres -c "SELECT n FROM hot")
echo
echo "hot row afterwards: $total"
