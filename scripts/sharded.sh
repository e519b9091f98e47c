#!/usr/bin/env bash
# Measures a table that is sharded by hash: a coordinator with postgres_fdw and two shards, alone and through Paceline with
# shards = "auto", with pgbench in alternation. All servers listen on loopback, use a temporary folder and end with the script.
# Environment variables: SECONDS_EACH (3), ROUNDS (3), CLIENTS (64), PACELINE (another binary).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${SECONDS_EACH:-3} rounds=${ROUNDS:-3} clients=${CLIENTS:-64}
coordinator=5490 shards=(5491 5492) ours=5493
source scripts/servers.sh

servers=("$coordinator" "${shards[@]}")
finish_servers() {
    for port in "${servers[@]}"; do as_postgres "$bin/pg_ctl" -D "$work/$port" -m fast -w stop >/dev/null 2>&1 || true; done
    finish
}
trap finish_servers EXIT

# on PORT SQL
on() { psql -q -X -h 127.0.0.1 -p "$1" -U postgres -d postgres -v ON_ERROR_STOP=1 -c "$2"; }

[[ $EUID -ne 0 ]] || chown postgres "$work"
chmod 755 "$work"
for port in "${servers[@]}"; do
    as_postgres "$bin/initdb" -D "$work/$port" -U postgres -A trust --locale=C.UTF-8 >/dev/null
    as_postgres "$bin/pg_ctl" -D "$work/$port" -l "$work/log-$port" -w start \
        -o "-p $port -k $work -c listen_addresses=127.0.0.1 -c max_connections=300" >/dev/null
done

columns='id bigint NOT NULL, balance bigint NOT NULL, filler text'
on "$coordinator" "CREATE EXTENSION postgres_fdw; CREATE TABLE accounts ($columns) PARTITION BY HASH (id)"
for place in 0 1; do
    on "$coordinator" "CREATE SERVER s$place FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '${shards[place]}', dbname 'postgres')"
    on "$coordinator" "CREATE USER MAPPING FOR PUBLIC SERVER s$place OPTIONS (user 'postgres', password_required 'false')"
done
for number in 0 1 2 3; do
    place=$((number % 2))
    on "${shards[place]}" "CREATE TABLE a$number ($columns, PRIMARY KEY (id))"
    on "$coordinator" "CREATE FOREIGN TABLE accounts_$number PARTITION OF accounts FOR VALUES WITH (MODULUS 4, REMAINDER $number)
        SERVER s$place OPTIONS (schema_name 'public', table_name 'a$number')"
done
on "$coordinator" "INSERT INTO accounts SELECT i, 0, repeat('x', 80) FROM generate_series(1, 20000) i"
on "$coordinator" "CREATE TABLE whole ($columns, PRIMARY KEY (id)); INSERT INTO whole SELECT * FROM accounts"
for port in "${servers[@]}"; do on "$port" "VACUUM ANALYZE"; done

cat >"$work/paceline.toml" <<TOML
[paceline]
listen = "127.0.0.1:$ours"
hotspot_for_autocommit = true
[databases.postgres]
primary = "postgres://postgres@127.0.0.1:$coordinator/postgres"
shards = "auto"
TOML
"$paceline" serve --config "$work/paceline.toml" 2>"$work/paceline.log" & pids+=($!)
wait_for $ours

# script NAME SQL
script() { printf '\\set id random(1, 20000)\n%s;\n' "$2" >"$work/$1.sql"; }
script select 'SELECT balance FROM accounts WHERE id = :id'
script update 'UPDATE accounts SET balance = balance + 1 WHERE id = :id'
script hot 'UPDATE accounts SET balance = balance + 1 WHERE id = 7'
script unsharded 'UPDATE whole SET balance = balance + 1 WHERE id = 7'
script cross 'SELECT count(*) FROM accounts WHERE id < 100'

# run PORT NAME [SECONDS]: prints transactions per second.
run() {
    pgbench -n -h 127.0.0.1 -p "$1" -U postgres -c "$clients" -j 1 -T "${3:-$seconds}" -M prepared -f "$work/$2.sql" postgres 2>"$work/pgbench.log" |
        awk '/^tps/ { printf "%d\n", $3 }'
}
# median FILE
median() { sort -n "$1" | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

for name in select update hot; do run $ours $name 1 >/dev/null; done
for _ in $(seq "$rounds"); do
    for name in select update hot cross; do
        run "$coordinator" $name >>"$work/$name-coordinator"
        run $ours $name >>"$work/$name-paceline"
    done
    run $ours unsharded >>"$work/unsharded-paceline"
done
echo "| statement, $clients clients, per second | coordinator | Paceline | ratio |"
echo '|---|---|---|---|'
for name in select update hot cross; do
    before=$(median "$work/$name-coordinator") after=$(median "$work/$name-paceline")
    echo "| $name | $before | $after | $(awk "BEGIN { printf \"%.1f\", $after / $before }") |"
done
echo "| hot row of a table that is not sharded | - | $(median "$work/unsharded-paceline") | - |"
