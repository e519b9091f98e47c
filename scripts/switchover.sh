#!/usr/bin/env bash
# Measures the pause of planned switchovers; scripts/switchover.py says how. Environment variable: ROUNDS (5).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rounds=${ROUNDS:-5} primary=5490 replica=5491 ours=5492
source scripts/servers.sh

pg_ctl="$bin/pg_ctl"
[[ $EUID -ne 0 ]] || pg_ctl="setpriv --reuid=postgres --regid=postgres --clear-groups -- $pg_ctl"

end_replica() { as_postgres "$bin/pg_ctl" -D "$work/replica" -m fast -w stop >/dev/null 2>&1 || true; }
trap 'end_replica; finish' EXIT

start_postgres $primary -c shared_buffers=128MB
for _ in $(seq "$rounds"); do
    sql "SET client_min_messages = warning; DROP TABLE IF EXISTS switchover"
    as_postgres "$bin/pg_basebackup" -R -c fast -h 127.0.0.1 -p $primary -U postgres -D "$work/replica"
    as_postgres "$bin/pg_ctl" -D "$work/replica" -l "$work/replica.log" -w start -o "-p $replica -k $work -c listen_addresses=127.0.0.1" >/dev/null || { cat "$work/replica.log" >&2; exit 1; }
    "$paceline" --upstream "postgres://postgres@127.0.0.1:$primary,127.0.0.1:$replica" --listen "127.0.0.1:$ours" 2>"$work/paceline.log" & pids+=($!)
    wait_for $ours
    scripts/switchover.py $ours $primary $replica "$pg_ctl -D $work/data -m fast -w stop && $pg_ctl -D $work/replica -w promote"
    stop_last
    end_replica
    rm -rf "$work/replica"
    as_postgres "$bin/pg_ctl" -D "$work/data" -l "$work/log" -w start -o "-p $primary -k $work -c listen_addresses=127.0.0.1" >/dev/null
done
