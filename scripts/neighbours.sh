#!/usr/bin/env bash
# Measures what one client costs another, on PostgreSQL and through Paceline in alternation: times of SELECT 1 in milliseconds (50th and
# 99th percentile, maximum) while another client sends a unit of 1,000,000 messages, or 58 KB of nested comments per query; and the
# seconds that 100,000 rows of one unit take. Settings by environment: ROUNDS (3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rounds=${ROUNDS:-3} server=5480 ours=5482
source scripts/stand.sh

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
