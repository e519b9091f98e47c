#!/usr/bin/env bash
# Measures how one client slows down another, on PostgreSQL and through Paceline in alternation: the latency of SELECT 1 in
# milliseconds (50th and 99th percentile, maximum) while another client sends a unit of 1,000,000 messages, or queries with 58 KB
# of nested comments; and the seconds for a unit that inserts 100,000 rows. Environment variable: ROUNDS (3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rounds=${ROUNDS:-3} server=5480 ours=5482
source scripts/servers.sh

start_postgres $server -c shared_buffers=512MB -c max_wal_size=8GB
start_paceline $ours
wait_for $ours
for kind in nothing pipeline comments insert; do
    for round in $(seq "$rounds"); do
        for port in $server $ours; do
            [[ $port == "$server" ]] && target=PostgreSQL || target=Paceline
            echo "$kind $target $(timeout 120 scripts/neighbours.py $port $kind)"
        done
    done
done
