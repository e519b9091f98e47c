#!/usr/bin/env bash
# Records which code of Paceline runs how often, for the compiler (profile-guided optimization, rustc's -C profile-use): builds
# Paceline with counters, sends it the workloads that its users have, and writes target/profile/paceline.profdata. scripts/dist.sh
# uses the file, and works without it. A profile of older sources still serves: the compiler ignores functions that have changed.
# All servers listen on loopback, use a temporary folder and end with the script. Environment variables: SECONDS_EACH (2).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

profile=$PWD/target/profile
llvm_profdata=$(rustc --print target-libdir)/../bin/llvm-profdata
if [[ ! -x $llvm_profdata ]]; then
    command -v rustup >/dev/null || { echo "llvm-profdata is missing; install the component llvm-tools of your Rust toolchain" >&2; exit 1; }
    rustup --quiet component add llvm-tools
fi

echo 'building with counters, which takes minutes'
RUSTFLAGS="-C profile-generate=$profile/raw" cargo build --quiet --release --target-dir "$profile" -p paceline --bin paceline
# Build scripts have counted, too.
rm -rf "$profile/raw"

seconds=${SECONDS_EACH:-2} server=5470 ours=5471 grouping=5472
PACELINE=$profile/release/paceline
source scripts/servers.sh

start_servers() {
    start_postgres $server -c max_connections=100 -c shared_buffers=256MB
    "$bin/pgbench" -i -q -s 5 -h 127.0.0.1 -p $server -U postgres postgres >/dev/null 2>&1
    sql "CREATE TABLE hot (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO hot SELECT g, 0 FROM generate_series(1, 100) g"
    sql "CREATE TABLE edge (id int, target int, n bigint NOT NULL, UNIQUE (id, target))"
    sql "CREATE TABLE job (id bigint PRIMARY KEY); INSERT INTO job SELECT generate_series(1, 1000000)"
    start_paceline $ours
    start_paceline $grouping --set hotspot_for_autocommit=true
    wait_for $ours
    wait_for $grouping
}

# Single statements: by number of clients and by protocol, they are relayed, pipelined, shared or grouped.
write_scripts() {
    echo 'SELECT 1;' >"$work/one.sql"
    printf '\\set id random(1, 100)\nUPDATE hot SET n = n + 1 WHERE id = :id RETURNING n;\n' >"$work/rows.sql"
    echo 'UPDATE /*+ COMMIT_ON_SUCCESS */ hot SET n = n + 1 WHERE id = 1;' >"$work/hot.sql"
    cat >"$work/upsert.sql" <<'SQL'
\set id random(1, 1000)
\set target random(1, 1000)
INSERT INTO edge (id, target, n) VALUES (:id, :target, 1) ON CONFLICT (id, target) DO UPDATE SET n = edge.n + EXCLUDED.n;
SQL
    echo 'DELETE FROM job WHERE id = (SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id;' >"$work/take.sql"
    printf '\\set id random(1, 20)\nSELECT * FROM pgbench_accounts WHERE aid BETWEEN :id * 100 AND :id * 100 + 500;\n' >"$work/read.sql"
}

# load PORT CLIENTS ARGUMENTS_OF_PGBENCH…
load() {
    local port=$1 clients=$2
    shift 2
    "$bin/pgbench" -n -h 127.0.0.1 -p "$port" -U postgres -c "$clients" -j 1 -T "$seconds" "$@" postgres >"$work/pgbench.log" 2>&1 || { cat "$work/pgbench.log" >&2; exit 1; }
}

start_servers
write_scripts
for protocol in simple extended prepared; do
    for clients in 1 8 64; do
        load $ours $clients -M $protocol -b tpcb-like
        load $ours $clients -M $protocol -b simple-update
        load $ours $clients -M $protocol -b select-only
        load $ours $clients -M $protocol -f "$work/one.sql"
    done
    for script in rows hot upsert take read; do load $grouping 64 -M $protocol -f "$work/$script.sql"; done
done
load $ours 4 -C -f "$work/one.sql"
# The counters are written when the processes end.
stop_last
stop_last
"$llvm_profdata" merge -o "$profile/paceline.profdata" "$profile/raw"
echo "$profile/paceline.profdata"
