#!/usr/bin/env bash
# Runs the test suites that drivers ship in their own packages, against PostgreSQL and through Paceline in both pool modes, and compares
# the results test by test. A test that passes on PostgreSQL and not through Paceline must be listed, with its reason, in
# scripts/driver-suites.txt; another one ends this script with an error.
#
#   scripts/driver-suites.sh [SUITE…]      asyncpg, pgx, pq; all of them without an argument
#
# Suites are fetched into target/driver-suites: asyncpg's from its source package on PyPI, those of pgx and lib/pq as Go modules.
# (psycopg's source package and node-postgres' npm package come without their tests.)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
known=$root/scripts/driver-suites.txt
fetched=$root/target/driver-suites
paceline_bin=${PACELINE:-$root/target/debug/paceline}
export GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0

asyncpg_version=0.29.0
pgx_version=v5.11.0
pq_version=v1.12.3

# --- how each suite is fetched --------------------------------------------------------------------------------------------------

fetch_asyncpg() {
    python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: -d . "asyncpg==$asyncpg_version"
    tar xzf "asyncpg-$asyncpg_version.tar.gz" --strip-components 1 "asyncpg-$asyncpg_version/tests"
    python3 -m pip install -q --disable-pip-version-check --only-binary :all: --target packages "asyncpg==$asyncpg_version"
}

# fetch_go MODULE VERSION
fetch_go() {
    local from
    from=$(go mod download -json "$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    cp -r "$from" source && chmod -R u+w source
    (cd source && go test -vet=off -c -o ../suite .)
}

fetch_pgx() { fetch_go github.com/jackc/pgx/v5 "$pgx_version"; }
fetch_pq() { fetch_go github.com/lib/pq "$pq_version"; }

# --- how each is prepared on PostgreSQL, and run against a port; results are lines "TEST passed" and "TEST failed" ---------------------

prepare_asyncpg() { :; }
run_asyncpg() {
    # What an earlier run could not drop.
    for database in asyncpg_intro_test testdb; do sql "DROP DATABASE IF EXISTS $database WITH (FORCE)" 2>/dev/null; done
    (cd "$fetched/asyncpg" && PGHOST=127.0.0.1 PGPORT=$1 PGUSER=postgres PGDATABASE=postgres PYTHONPATH=packages \
        timeout 600 python3 -W ignore - 2>/dev/null <<'PYTHON' || true
import unittest

SUITES = """prepare cache_invalidation introspection execute cursor transaction pool timeout listeners record codecs copy
cancellation utils types exceptions logging adversity""".split()


class Result(unittest.TestResult):
    def addSuccess(self, test):
        print(test.id(), "passed", flush=True)

    def addFailure(self, test, error):
        print(test.id().replace(" ", ""), "failed", flush=True)

    addError = addFailure


unittest.defaultTestLoader.loadTestsFromNames([f"tests.test_{name}" for name in SUITES]).run(Result())
PYTHON
    ) | grep -E '^[^ ]+ (passed|failed)$'
}

go_results() { sed -n 's/^ *--- PASS: \([^ ]*\).*/\1 passed/p; s/^ *--- FAIL: \([^ ]*\).*/\1 failed/p'; }

prepare_pgx() {
    sql "CREATE DATABASE pgx_test"
    psql -q -X -h 127.0.0.1 -p "$server" -U postgres -d pgx_test -f "$fetched/pgx/source/testsetup/postgresql_setup.sql" >/dev/null
}
run_pgx() {
    (cd "$fetched/pgx/source" && PGX_TEST_DATABASE="host=127.0.0.1 port=$1 user=postgres dbname=pgx_test sslmode=disable" \
        timeout 600 ../suite -test.v 2>&1 || true) | go_results
}

prepare_pq() {
    sql "CREATE DATABASE pqgo"
    sql "CREATE USER pqgo SUPERUSER"
}
run_pq() {
    (cd "$fetched/pq/source" && PGHOST=127.0.0.1 PGPORT=$1 PGUSER=pqgo PGDATABASE=pqgo PGSSLMODE=disable \
        timeout 600 ../suite -test.v 2>&1 || true) | go_results
}

# --- the comparison ------------------------------------------------------------------------------------------------------------------

suites=("$@")
[[ $# -gt 0 ]] || suites=(asyncpg pgx pq)
for suite in "${suites[@]}"; do
    folder=$fetched/$suite
    [[ -e $folder/ready ]] && continue
    echo "fetching $suite"
    rm -rf "$folder"
    mkdir -p "$folder"
    (cd "$folder" && "fetch_$suite")
    touch "$folder/ready"
done

PACELINE=$paceline_bin
source scripts/stand.sh
start_postgres 17455 -c fsync=off -c max_connections=200
start_paceline 17456 --set pool_mode=transaction
start_paceline 17457 --set pool_mode=session --set default_pool_size=100
wait_for 17456
wait_for 17457

unlisted=0
for suite in "${suites[@]}"; do
    "prepare_$suite"
    "run_$suite" 17455 | sort -u >"$work/$suite-direct"
    echo "$suite: $(grep -c ' passed$' "$work/$suite-direct") tests pass on PostgreSQL"
    for mode in transaction session; do
        port=17456
        [[ $mode == transaction ]] || port=17457
        "run_$suite" "$port" | sort -u >"$work/$suite-$mode"
        comm -23 <(grep ' passed$' "$work/$suite-direct") "$work/$suite-$mode" | sed 's/ passed$//' >"$work/differ"
        echo "  $mode pooling: $(wc -l <"$work/differ") of them do not"
        while read -r test; do
            reason=$(awk -v s="$suite" -v m="$mode" -v t="$test" '$1 == s && ($2 == m || $2 == "both") && $3 == t { $1 = $2 = $3 = ""; print; exit }' "$known")
            echo "    $test:${reason:- NOT LISTED}"
            [[ -n $reason ]] || unlisted=$((unlisted + 1))
        done <"$work/differ"
    done
done
if ((unlisted > 0)); then
    echo "$unlisted differences have no reason in ${known#"$root/"}" >&2
    exit 1
fi
