# Functions of the measuring scripts: start servers on loopback in a temporary folder, which end with the script. Sourced, not
# run.

# Debian installs PgBouncer in a folder that is not in the PATH of ordinary users.
PATH=$PATH:/usr/sbin
bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
bin=${bin:-$(pg_config --bindir)}
paceline=${PACELINE:-target/dist/paceline}
pgbouncer=${PGBOUNCER:-pgbouncer}
work=$(mktemp -d)
pids=()

# PostgreSQL and PgBouncer refuse to run as root.
become_postgres() { if [[ $EUID -eq 0 ]]; then exec setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"; else exec "$@"; fi; }
as_postgres() { (become_postgres "$@"); }

finish() {
    for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    as_postgres "$bin/pg_ctl" -D "$work/data" -m fast -w stop >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT

wait_for() { for _ in $(seq 100); do pg_isready -q -h 127.0.0.1 -p "$1" -U postgres -d postgres && return; sleep 0.1; done; echo "no server answers on port $1" >&2; exit 1; }

# start_postgres PORT OPTIONS…
start_postgres() {
    server=$1
    shift
    [[ $EUID -ne 0 ]] || chown postgres "$work"
    chmod 755 "$work"
    as_postgres "$bin/initdb" -D "$work/data" -U postgres -A trust --locale=C.UTF-8 >/dev/null
    as_postgres "$bin/pg_ctl" -D "$work/data" -l "$work/log" -w start -o "-p $server -k $work -c listen_addresses=127.0.0.1 $*" >/dev/null
}

# start_pgbouncer PORT POOL_SIZE LINES_OF_INI…
start_pgbouncer() {
    local port=$1 size=$2 ini=$work/pgbouncer-$1.ini
    shift 2
    cat > "$ini" <<INI
[databases]
* = host=127.0.0.1 port=$server user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = $size
max_client_conn = 10000
server_reset_query =
$(printf '%s\n' "$@")
INI
    (ulimit -n "$(ulimit -Hn)"; become_postgres "$pgbouncer" "$ini") >"$work/pgbouncer-$port.log" 2>&1 & pids+=($!)
}

# Ends the last process that was started in the background.
stop_last() {
    local pid=${pids[-1]}
    unset 'pids[-1]'
    kill -INT "$pid"
    wait "$pid" || true
}

# start_paceline PORT ARGUMENTS…; all clients use the server as postgres unless upstream_user is empty.
start_paceline() {
    local port=$1
    shift
    "$paceline" --upstream "postgres://${upstream_user-postgres@}127.0.0.1:$server" --listen "127.0.0.1:$port" "$@" 2>"$work/paceline-$port.log" & pids+=($!)
}

sql() { psql -q -X -h 127.0.0.1 -p "$server" -U postgres -d postgres -v ON_ERROR_STOP=1 -c "$1"; }

# median: of the numbers on standard input.
median() { tr ' ' '\n' | sed '/^$/d' | sort -n | awk '{ v[NR] = $1 } END { if (NR) print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }
ratio() { awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { if (a > 0 && b > 0) printf "%.2f", a / b; else printf "–" }'; }
