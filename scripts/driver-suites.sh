#!/usr/bin/env bash
# Runs the test suites that drivers ship in their packages, against PostgreSQL and through Paceline in both pool modes, and
# compares the results test by test. If a test passes on PostgreSQL but not through Paceline, scripts/driver-suites.txt must list
# it with a reason; otherwise this script fails.
#
#   scripts/driver-suites.sh [SUITE…]      asyncpg, psycopg2, pgx, pq, node; all of them without an argument
#
# The suites are downloaded to target/driver-suites: those of asyncpg and psycopg2 from their source packages on PyPI, those of
# pgx and lib/pq as Go modules, those of node-postgres (pg, pg-pool, pg-cursor, pg-query-stream) from the last npm packages that
# contain tests. No package of psycopg 3 in these registries contains its tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
known=$root/scripts/driver-suites.txt
fetched=$root/target/driver-suites
paceline_bin=${PACELINE:-$root/target/debug/paceline}
export GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0

asyncpg_version=0.29.0
psycopg2_version=2.9.11
pgx_version=v5.11.0
pq_version=v1.12.3
# The driver for the tests of pg-pool, pg-cursor and pg-query-stream. The tests of pg use their own version.
pg_version=8.11.3
pg_tested_version=4.5.7

# --- functions that download a suite --------------------------------------------------------------------------------------------

fetch_asyncpg() {
    python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: -d . "asyncpg==$asyncpg_version"
    tar xzf "asyncpg-$asyncpg_version.tar.gz" --strip-components 1 "asyncpg-$asyncpg_version/tests"
    python3 -m pip install -q --disable-pip-version-check --only-binary :all: --target packages "asyncpg==$asyncpg_version"
}

fetch_psycopg2() {
    python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: -d . "psycopg2==$psycopg2_version"
    tar xzf "psycopg2-$psycopg2_version.tar.gz" --strip-components 1 "psycopg2-$psycopg2_version/tests"
    python3 -m pip install -q --disable-pip-version-check --only-binary :all: --target packages "psycopg2-binary==$psycopg2_version"
}

# Other packages that the tests require, in the versions that their packages name. stream-tester is in no registry: tests that
# require it fail on PostgreSQL, too.
fetch_node() {
    echo '{"private": true}' >package.json
    npm install --silent --no-audit --no-fund --ignore-scripts "pg@$pg_version" "pg-tested@npm:pg@$pg_tested_version" async@0.9.0 \
        pg-pool@2.0.10 bluebird@3.4.1 co@4.6.0 expect.js@0.3.1 lodash@4 pg-cursor@2.0.1 mocha@6.2.3 \
        pg-query-stream@3.0.0 concat-stream@1.0.1 stream-spec@0.3.6 through@2.3.8 JSONStream@0.7.4
    # The test connects only a socket that reports itself as closed, which newer versions of Node do not do.
    sed -i "s/this.stream.readyState === 'closed'/!this.stream.remoteAddress/" node_modules/pg-tested/lib/connection.js
}

# fetch_go MODULE VERSION; compile_go runs after it.
fetch_go() {
    local from
    from=$(go mod download -json "$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    cp -r "$from" source && chmod -R u+w source
}

compile_go() { (cd source && go test -vet=off -c -o ../suite .); }

fetch_pgx() { fetch_go github.com/jackc/pgx/v5 "$pgx_version" && compile_go; }

# On a busy machine 100 ms are too short for the event of a listener, and the program ends before the remaining tests.
fetch_pq() {
    fetch_go github.com/lib/pq "$pq_version"
    sed -i '/^func wantEvent/,/^}/ s/100 \* time.Millisecond/5 * time.Second/' source/notify_test.go
    compile_go
}

# --- functions that prepare PostgreSQL for a suite and run it; the output has lines "TEST passed" and "TEST failed", then "(end) 

# python_results NAME…: runs the modules or tests with these names in the current folder.
python_results() {
    PYTHONPATH=packages timeout 600 python3 -W ignore - "$@" 2>/dev/null <<'PYTHON' | grep -E '^[^ ]+ (passed|failed)$' || true
import sys
import unittest


class Result(unittest.TestResult):
    def addSuccess(self, test):
        print(test.id(), "passed", flush=True)

    def addFailure(self, test, error):
        print(test.id().replace(" ", ""), "failed", flush=True)

    addError = addFailure


unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(Result())
print("(end) passed", flush=True)
PYTHON
}

prepare_asyncpg() { :; }
run_asyncpg() {
    # Drops what an earlier run could not drop.
    for database in asyncpg_intro_test testdb; do sql "DROP DATABASE IF EXISTS $database WITH (FORCE)" 2>/dev/null; done
    cd "$fetched/asyncpg"
    PGHOST=127.0.0.1 PGPORT=$1 PGUSER=postgres PGDATABASE=postgres python_results tests.test_{prepare,cache_invalidation,introspection,execute,cursor} \
        tests.test_{transaction,pool,timeout,listeners,record,codecs,copy,cancellation,utils,types,exceptions,logging,adversity}
}

prepare_psycopg2() { sql "CREATE DATABASE psycopg2_test"; }
run_psycopg2() {
    cd "$fetched/psycopg2"
    PSYCOPG2_TESTDB_HOST=127.0.0.1 PSYCOPG2_TESTDB_PORT=$1 PSYCOPG2_TESTDB_USER=postgres python_results tests.test_suite
}

prepare_node() { sql "CREATE DATABASE node"; }
# A file of pg's tests counts as one test, which passes if its program succeeds. Of the other packages each test of mocha counts.
# Tests that require a hosted server on the Internet are skipped.
run_node() {
    export PGHOST=127.0.0.1 PGPORT=$1 PGUSER=postgres PGDATABASE=node
    local url=postgres://postgres@127.0.0.1:$1/node package file result
    cd "$fetched/node/node_modules/pg-tested"
    PGPORT=$server psql -q -X -c "DROP TABLE IF EXISTS person" 2>/dev/null
    timeout 60 node script/create-test-tables.js "$url" >/dev/null 2>&1 || true
    for file in $(find test/integration -name '*-tests.js' ! -name 'heroku*' | sort); do
        result=failed
        if timeout 60 node "$file" "$url" >/dev/null 2>&1; then result=passed; fi
        echo "pg/${file#test/integration/} $result"
    done
    for package in pg-pool pg-cursor pg-query-stream; do
        cd "$fetched/node/node_modules/$package"
        for file in test/*.js; do
            timeout 120 node ../mocha/bin/_mocha --no-opts --exit --timeout 10000 --reporter json-stream "$file" 2>/dev/null |
                sed -En '/^\["(pass|fail)",/ { s/.*"fullTitle":"(([^"\\]|\\.)*)".*/&\n\1/; s/^\["(pass|fail)[^\n]*\n/\1ed /; p }' |
                while read -r result title; do echo "$package/${title// /_} $result"; done || true
        done
    done
    echo "(end) passed"
}

# The last line is PASS or FAIL unless the suite has crashed.
go_results() { sed -n 's/^PASS$/(end) passed/p; s/^FAIL$/(end) passed/p; s/^ *--- PASS: \([^ ]*\).*/\1 passed/p; s/^ *--- FAIL: \([^ ]*\).*/\1 failed/p'; }

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
# The examples connect to port 5432 and end the program if no server answers.
run_pq() {
    (cd "$fetched/pq/source" && PGHOST=127.0.0.1 PGPORT=$1 PGUSER=pqgo PGDATABASE=pqgo PGSSLMODE=disable \
        timeout 600 ../suite -test.v -test.run '^Test' 2>&1 || true) | go_results
}

# --- comparison -----------------------------------------------------------------------------------------------------------------

suites=("$@")
[[ $# -gt 0 ]] || suites=(asyncpg psycopg2 pgx pq node)
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
source scripts/servers.sh
start_postgres 17455 -c fsync=off -c max_connections=200 -c max_prepared_transactions=10
# Clients connect as the users that they name, as without Paceline.
upstream_user=
start_paceline 17456 --set pool_mode=transaction
start_paceline 17457 --set pool_mode=session --set default_pool_size=100
wait_for 17456
wait_for 17457

unlisted=0
for suite in "${suites[@]}"; do
    "prepare_$suite"
    "run_$suite" 17455 | sort -u >"$work/$suite-direct"
    grep -qx '(end) passed' "$work/$suite-direct" || { echo "$suite: it did not finish on PostgreSQL itself; run it again" >&2; exit 1; }
    echo "$suite: $(grep -vc '^(end)\| failed$' "$work/$suite-direct") tests pass on PostgreSQL"
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
        awk -v s="$suite" -v m="$mode" '$1 == s && ($2 == m || $2 == "both") { print $3 }' "$known" | while read -r test; do
            grep -qxF "$test" "$work/differ" || echo "    $test is listed, and passes"
        done
    done
done
if ((unlisted > 0)); then
    echo "$unlisted differences have no reason in ${known#"$root/"}" >&2
    exit 1
fi
