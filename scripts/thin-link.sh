#!/usr/bin/env bash
# Measures two Pacelines with a thin link between them, uncompressed and compressed in alternation: requests per second, and
# kilobytes per request on the link, in both directions. The link is a pair of virtual network cards between two namespaces, with
# tc's netem: a rate, and 1 ms delay each way. If the kernel has no netem, it is tbf: a rate without a delay, as the output says.
# Needs Linux, root, and ip and tc (iproute2). All servers and the namespaces end with the script.
# Environment variables: RATES ("100mbit 1gbit"), SECONDS_EACH (8), ROUNDS (3), CLIENTS (16), ROWS (200000, of 10,000 per key),
# LEVEL (zstd), ONLY (names of workloads; all by default: text binary select one copy).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rates=${RATES:-100mbit 1gbit} seconds=${SECONDS_EACH:-8} rounds=${ROUNDS:-3} clients=${CLIENTS:-16} rows=${ROWS:-200000}
level=${LEVEL:-zstd} only=${ONLY:-text binary select one copy}
server=5490 far=5491 plain=5492 compressed=5493
near_side=paceline-near-$$ far_side=paceline-far-$$ near_card=plnear$$ far_card=plfar$$
near_address=198.19.255.1 far_address=198.19.255.2
source scripts/servers.sh

command -v tc >/dev/null || { echo 'tc is missing; install iproute2' >&2; exit 1; }
[[ $EUID -eq 0 ]] || { echo 'thin-link.sh makes network namespaces, which needs root' >&2; exit 1; }
in_near() { ip netns exec "$near_side" "$@"; }
in_far() { ip netns exec "$far_side" "$@"; }

remove_link() {
    ip netns delete "$near_side" 2>/dev/null || true
    ip netns delete "$far_side" 2>/dev/null || true
}
trap 'finish; remove_link' EXIT

make_link() {
    ip netns add "$near_side"
    ip netns add "$far_side"
    ip link add "$near_card" netns "$near_side" type veth peer name "$far_card" netns "$far_side"
    in_near ip link set lo up
    in_far ip link set lo up
    in_near ip address add "$near_address/30" dev "$near_card"
    in_far ip address add "$far_address/30" dev "$far_card"
    in_near ip link set "$near_card" up
    in_far ip link set "$far_card" up
}

# set_rate RATE: in both directions. The queue holds more than the clients have in flight, so that nothing is lost in it.
set_rate() {
    local shape=(netem delay 1ms rate "$1" limit 100000)
    [[ $delay != none ]] || shape=(tbf rate "$1" burst 128kb limit 64mb)
    in_near tc qdisc replace dev "$near_card" root "${shape[@]}"
    in_far tc qdisc replace dev "$far_card" root "${shape[@]}"
}

# start_in NAMESPACE PORT ADDRESS UPSTREAM ARGUMENTS…: starts a Paceline there.
start_in() {
    local namespace=$1 port=$2 address=$3 upstream=$4
    shift 4
    ip netns exec "$namespace" "$paceline" --upstream "postgres://postgres@$upstream" --listen "$address:$port" \
        --set "default_pool_size=$clients" "$@" 2>"$work/paceline-$port.log" & pids+=($!)
}

# await_port NAMESPACE ADDRESS PORT
await_port() {
    for _ in $(seq 100); do
        ip netns exec "$1" pg_isready -q -h "$2" -p "$3" -U postgres -d postgres && return
        sleep 0.1
    done
    echo "no server answers on port $3" >&2
    cat "$work/paceline-$3.log" >&2
    exit 1
}

start_servers() {
    # PostgreSQL runs in the far namespace, so that its clients there reach it on loopback.
    as_postgres() { (ip netns exec "$far_side" setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"); }
    start_postgres $server -c max_connections=200 -c shared_buffers=256MB -c max_wal_size=4GB
    start_in "$far_side" $far "$far_address" "127.0.0.1:$server" --set "client_compression=$level" --set auth_trust_remote=true
    await_port "$far_side" "$far_address" $far
    start_in "$near_side" $plain 127.0.0.1 "$far_address:$far"
    start_in "$near_side" $compressed 127.0.0.1 "$far_address:$far" --set "server_compression=$level"
    await_port "$near_side" 127.0.0.1 $plain
    await_port "$near_side" 127.0.0.1 $compressed
}

# sql_far STATEMENT
sql_far() { in_far psql -q -X -h 127.0.0.1 -p $server -U postgres -d postgres -v ON_ERROR_STOP=1 -c "$1"; }

make_tables() {
    in_far pgbench -q -i -s 10 -h 127.0.0.1 -p $server -U postgres postgres >/dev/null 2>&1
    sql_far "CREATE TABLE copied AS SELECT i AS id, md5(i::text) AS info, i / 10000 AS kind, now() AS changed FROM generate_series(1, $rows) i"
    sql_far "VACUUM ANALYZE"
    echo 'SELECT 1;' >"$work/one.sql"
}

# Bytes that have crossed the link so far, in both directions.
link_bytes() {
    local card=/sys/class/net/$near_card/statistics
    in_near cat "$card/rx_bytes" "$card/tx_bytes" | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

# lab PORT VARIANT: prints reads per second of paceline bench keyed-read, whose check fails if a row is missing.
lab() {
    rm -f "$work/lab.jsonl"
    in_near "$paceline" bench keyed-read --variant "$2" --against "near=postgres://postgres@127.0.0.1:$1/postgres" \
        --clients "$clients" --duration "${seconds}s" --warmup 1s --rounds 1 --rows "$rows" --json "$work/lab.jsonl" \
        >"$work/lab.log" 2>&1 || { cat "$work/lab.log" >&2; exit 1; }
    python3 -c 'import json, sys; ran = json.loads(open(sys.argv[1]).readline())["result"]; print(ran["rate"], ran["units"])' "$work/lab.jsonl"
}

# bench PORT ARGUMENTS…: prints transactions per second of pgbench, and their number.
bench() {
    local port=$1
    shift
    in_near pgbench -n -h 127.0.0.1 -p "$port" -U postgres -c "$clients" -j 1 -T "$seconds" "$@" postgres 2>"$work/pgbench.log" |
        awk '/^tps/ { rate = $3 } /^number of transactions actually/ { n = $NF } END { print rate, n }'
}

# copy PORT: prints copies of the table per second, and their number.
copy() {
    local end=$((SECONDS + seconds)) n=0 start
    start=$(date +%s.%N)
    while ((SECONDS < end)); do
        in_near psql -q -X -h 127.0.0.1 -p "$1" -U postgres -d postgres -c 'COPY copied TO STDOUT' >/dev/null
        n=$((n + 1))
    done
    awk -v n=$n -v start="$start" -v end="$(date +%s.%N)" 'BEGIN { print n / (end - start), n }'
}

# run WORKLOAD PORT: prints requests per second and their number.
run() {
    case $1 in
        text) lab "$2" clustered ;;
        binary) lab "$2" binary ;;
        select) bench "$2" -S -M prepared ;;
        one) bench "$2" -f "$work/one.sql" -M prepared ;;
        copy) copy "$2" ;;
    esac
}

# measure WORKLOAD: prints the medians of both, and their ratio.
measure() {
    local kind=$1 round port before rate n
    for round in $(seq "$rounds"); do
        for port in $plain $compressed; do
            before=$(link_bytes)
            read -r rate n < <(run "$kind" "$port")
            echo "$rate" >>"$work/$kind-$port.rates"
            awk -v bytes=$(($(link_bytes) - before)) -v n="$n" 'BEGIN { print bytes / n / 1000 }' >>"$work/$kind-$port.sizes"
        done
    done
    local rates=() sizes=()
    for port in $plain $compressed; do
        rates+=("$(median <"$work/$kind-$port.rates")") sizes+=("$(median <"$work/$kind-$port.sizes")")
    done
    printf '| %s | %.1f | %.1f | %s | %.2f | %.2f |\n' "$kind" "${rates[0]}" "${rates[1]}" "$(ratio "${rates[1]}" "${rates[0]}")" "${sizes[0]}" "${sizes[1]}"
    rm -f "$work/$kind-"*
}

make_link
delay='1 ms each way'
in_near tc qdisc replace dev "$near_card" root netem delay 1ms 2>/dev/null || delay=none
start_servers
make_tables
for rate in $rates; do
    set_rate "$rate"
    echo "$rate, delay: $delay, $clients clients, $level"
    echo '| workload | requests/s plain | compressed | ratio | kB/request plain | compressed |'
    echo '|---|---|---|---|---|---|'
    for kind in $only; do measure "$kind"; done
done
