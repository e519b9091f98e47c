#!/usr/bin/env bash
# Runs PostgreSQL's own test suites on PostgreSQL and through Paceline, and compares the differences with scripts/conformance.txt.
# The script fails if a test fails on PostgreSQL itself, or if that file does not list a difference.
#
#   scripts/conformance.sh [RUN…]   session               the regression suite, in session pooling
#                                   isolation             the isolation suite, in session pooling
#                                   pipeline              libpq_pipeline, in session pooling
#                                   transaction           the regression suite, in transaction pooling
#                                   transaction-pipeline  libpq_pipeline, in transaction pooling
#                                   all of them without an argument
#
# Paceline groups statements without hints. The suites come from Debian's source package of the installed server. They and the
# differences of the last run are stored in target/conformance. The script compiles two small libraries (functions that tests call,
# and session_process.c) and libpq_pipeline. The server must come from a package of Debian, Ubuntu or apt.postgresql.org.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
known=$root/scripts/conformance.txt
source scripts/debian-packages.sh
PACELINE=${PACELINE:-$root/target/debug/paceline}
source scripts/servers.sh

die() {
    echo "$*" >&2
    exit 1
}

# --- the suite of the server's version ------------------------------------------------------------------------------------------

major=$("$bin/postgres" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
[[ $bin == /usr/lib/postgresql/$major/bin ]] || die "the suite needs a PostgreSQL from a Debian package; $bin is none"
version=$(dpkg-query -W -f '${Version}' "postgresql-$major") || die "the suite needs a PostgreSQL from a Debian package; postgresql-$major is not installed"
pgxs=/usr/lib/postgresql/$major/lib/pgxs/src/test
fetched=$root/target/conformance/$version

fetch_suites() {
    echo "fetching the suites of PostgreSQL $version"
    rm -rf "$fetched"
    mkdir -p "$fetched/headers" "$fetched/lib"
    cd "$fetched"
    fetch_source "postgresql-$major=$version" || {
        cat "$debian_folder/log" >&2
        die "the source package of postgresql-$major $version cannot be downloaded, see above; if it has been replaced, update PostgreSQL"
    }
    tar xf "postgresql-${major}_"*.orig.tar.* --strip-components 1 --wildcards '*/src/test/regress' '*/src/test/isolation' '*/src/test/modules/libpq_pipeline'
    compile_programs
    rm -f ./*.tar.* ./*.dsc ./*.deb
    touch ready
    cd "$root"
}

# Unpacks a package of PostgreSQL, because installing it would also install a compiler.
unpack_headers() {
    unpack_package "$1" headers || {
        cat "$debian_folder/log" >&2
        die "$1 cannot be downloaded, see above"
    }
}

# regress.so contains functions that tests call. libpq_pipeline is the client of the suite of this name.
compile_programs() {
    local headers=headers/usr/include/postgresql/$major/server libraries
    unpack_headers "postgresql-server-dev-$major=$version"
    unpack_headers libpq-dev
    cc -shared -fPIC -O1 -w -I "$headers" -o lib/regress.so src/test/regress/regress.c
    # Bound lazily, because programs without libpq load it, too.
    cc -shared -fPIC -O1 -Wl,-z,lazy -o lib/session_process.so "$root/scripts/session_process.c" -ldl
    # Debian has had the static libraries in either package.
    libraries=$(find headers -name '*.a' -printf '-L %h\n' | sort -u)
    # shellcheck disable=SC2086
    cc -O1 -w -I "$headers" -I headers/usr/include/postgresql -o lib/libpq_pipeline src/test/modules/libpq_pipeline/libpq_pipeline.c $libraries \
        -lpgcommon -lpgport -l:libpq.so.5
    # The tests search for these files beside regress.so.
    cp "/usr/lib/postgresql/$major/lib/"{autoinc,refint}.so lib/
}

# --- a run and its differences --------------------------------------------------------------------------------------------------

run_regression() {
    become_postgres "$pgxs/regress/pg_regress" --inputdir="$work/src/regress" --dlpath="$work/src/lib" --schedule="$work/src/regress/parallel_schedule" \
        --max-concurrent-tests=20 "$@"
}

# isolationtester identifies its sessions in pg_locks by the process id that libpq received at login. A pooler returns another
# number, so session_process.c queries the session instead, also on PostgreSQL.
run_isolation() {
    LD_PRELOAD=$work/src/lib/session_process.so become_postgres "$pgxs/isolation/pg_isolation_regress" --inputdir="$work/src/isolation" \
        --schedule="$work/src/isolation/isolation_schedule" "$@"
}

# Runs each test of libpq_pipeline in a database of this run. A test fails if its exit code is not 0. It also fails if PostgreSQL's
# sources contain a trace of its messages, so that these are the same in each run, and they differ from those of the run on PostgreSQL.
# run_programs NAME PORT
run_programs() {
    local out=$work/$1 program=$work/src/lib/libpq_pipeline diffs=$root/target/conformance/$1.diffs test status
    mkdir "$out"
    : >"$diffs"
    : >"$out.failed"
    : >"$out.changed"
    sql "CREATE DATABASE \"$1\""
    for test in $("$program" tests); do
        status=0
        timeout 120 "$program" -r 700 -t "$out/$test.trace" "$test" "host=127.0.0.1 port=$2 user=postgres dbname=$1" >"$out/$test.log" 2>&1 || status=$?
        if ((status != 0)); then
            { echo "diff $test"; tail -n 5 "$out/$test.log"; } >>"$diffs"
            printf '%s\t-exit code 0\n%s\t+exit code %s\n' "$test" "$test" "$status" >>"$out.changed"
        fi
        [[ $1 == bare-* || ! -e $work/src/modules/libpq_pipeline/traces/$test.trace ]] || diff -u --label PostgreSQL --label Paceline "$work/bare-pipeline/$test.trace" "$out/$test.trace" >"$out/$test.diff" || {
            cat "$out/$test.diff" >>"$diffs"
            sed -En "/^(---|\+\+\+) /d; s/^[-+]/$test\t&/p" "$out/$test.diff" >>"$out.changed"
        }
        ! grep -q "^$test	" "$out.changed" || echo "$test" >>"$out.failed"
    done
    echo "$1: $(wc -l <"$out.failed") of $("$program" tests | wc -l) tests differ"
}

# run_suite SUITE NAME PORT: writes the failed tests to $work/NAME.failed, and every line of them that differs from the expected
# output to $work/NAME.changed, as "TEST<tab>LINE" with the - or + of diff.
run_suite() {
    if [[ $1 == pipeline ]]; then
        run_programs "$2" "$3"
        return
    fi
    local suite=$1 out=$work/$2 diffs=$root/target/conformance/$2.diffs
    mkdir "$out"
    [[ $EUID -ne 0 ]] || chown postgres "$out"
    (cd "$out" && "run_$suite" --outputdir="$out" --bindir="$bin" --encoding=UTF8 --no-locale --host=127.0.0.1 --port="$3" --user=postgres) >"$out.log" 2>&1 || true
    # From version 16 on the line is a TAP comment.
    sed -En 's/^[ #]*((All )?[0-9]+ (of [0-9]+ )?tests (passed|failed))\..*/\1/p' "$out.log" >"$out.total"
    [[ -s $out.total ]] || {
        tail -n 20 "$out.log" >&2
        die "$2: the suite did not finish"
    }
    echo "$2: $(cat "$out.total")"
    sed -En 's/^(test |     )([^ ]+) +\.\.\. FAILED.*/\2/p; s/^not ok [0-9]+ +[-+] ([^ ]+) .*/\1/p' "$out.log" >"$out.failed"
    : >"$diffs"
    [[ ! -e $out/regression.diffs ]] || cp "$out/regression.diffs" "$diffs"
    awk '/^diff / { test = $NF; sub(/.*\//, "", test); sub(/\.out$/, "", test); next }
         /^[-+]/ && !/^(---|\+\+\+) \// { print test "\t" $0 }' "$diffs" >"$out.changed"
}

# explain RUN TEST: prints the reason why the test differs. Fails if the list contains no reason, or if it names lines and
# another line differs.
explain() {
    awk -v entry="$1 $2: " -v test="$2" '
        NR == FNR && /^    / { if (mine) { named = 1; expected[substr($0, 5)] = 1 }; next }
        NR == FNR { mine = index($0, entry) == 1; if (mine) reason = substr($0, length(entry) + 1); next }
        index($0, test "\t") == 1 { changed = 1; line = substr($0, length(test) + 2); if (named && !(line in expected)) other = other "\n      " line }
        END {
            if (reason == "") verdict = "NOT LISTED"
            else if (!changed) verdict = "NOT LISTED: its output is as expected, but psql has failed"
            else if (other != "") verdict = "NOT LISTED, other lines than the listed ones:" other
            print "  " test ": " (verdict == "" ? reason : verdict)
            exit verdict != ""
        }' "$known" "$work/$1.changed"
}

# --- runs -----------------------------------------------------------------------------------------------------------------------

# The suite and the pool mode of Paceline for each run.
declare -A suite_of=([session]=regression [isolation]=isolation [pipeline]=pipeline [transaction]=regression [transaction-pipeline]=pipeline)
declare -A mode_of=([session]=session [isolation]=session [pipeline]=session [transaction]=transaction [transaction-pipeline]=transaction)

runs=("$@")
[[ $# -gt 0 ]] || runs=(session isolation pipeline transaction transaction-pipeline)
for run in "${runs[@]}"; do
    [[ -n ${suite_of[$run]:-} ]] || die "there is no run \"$run\"; write session, isolation, pipeline, transaction or transaction-pipeline"
done
[[ -e $fetched/ready ]] || fetch_suites
# The server reads the data of the suite, and may not have access to this folder.
mkdir "$work/src"
cp -r "$fetched"/src/test/* "$fetched/lib" "$work/src"

# The settings that the suite uses for a temporary server. fsync is off because the data is temporary.
start_postgres 17465 -c fsync=off -c max_prepared_transactions=10

# Clients connect as the users that they name, as without Paceline.
upstream_user=

# Runs on PostgreSQL itself, once per script.
require_bare() {
    [[ ! -e $work/bare-$1.failed ]] || return 0
    run_suite "$1" "bare-$1" 17465
    [[ -s $work/bare-$1.failed ]] || return 0
    sed 's/^/  /' "$work/bare-$1.failed" >&2
    die "these tests fail on PostgreSQL itself, so a run through Paceline would prove nothing; see target/conformance/bare-$1.diffs"
}

unlisted=0
port=17466
for run in "${runs[@]}"; do
    require_bare "${suite_of[$run]}"
    # A run cannot drop the database of the previous one while a pool has connections to it: each run has its own Paceline.
    start_paceline "$port" --set pool_mode="${mode_of[$run]}" --set default_pool_size=90 --set hotspot_for_autocommit=true
    wait_for "$port"
    run_suite "${suite_of[$run]}" "$run" "$port"
    stop_last
    while read -r test; do
        explain "$run" "$test" || unlisted=$((unlisted + 1))
    done <"$work/$run.failed"
    while read -r test; do
        grep -qx "$test" "$work/$run.failed" || echo "  $test is listed, and passes"
    done < <(sed -n "s/^$run \([^ ]*\): .*/\1/p" "$known")
    # The test temp may leave a prepared transaction, which would prevent the next run from dropping the database.
    if [[ ${suite_of[$run]} == regression ]]; then
        psql -q -X -h 127.0.0.1 -p "$server" -U postgres -d regression <<<"SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts \gexec"
    fi
    port=$((port + 1))
done
if ((unlisted > 0)); then
    echo "$unlisted tests differ for no reason in ${known#"$root/"}; see target/conformance/*.diffs" >&2
    exit 1
fi
