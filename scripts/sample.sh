#!/usr/bin/env bash
# Draws a sample of the end-to-end tests for `make test`; `make test-all` runs all of them.
#
#   scripts/sample.sh skip       prints --exact and --skip NAME for the long tests that are not drawn
#   scripts/sample.sh versions   prints --exact and the NAMEs that are drawn of the tests whose result may depend on PostgreSQL's version
#
# One of SHARE (8) tests is drawn. Each run draws others; PACELINE_SAMPLE, which it prints on standard error, draws the same again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Themes whose tests start several servers, wait for timeouts, or measure: most of the time of all tests.
long='^(command_line::(advising|benching|benching_replicas)|drivers|failover|groups::(order_variants|queue_clients)|listening::many|operations::faults|operations::web::shown|reads|scripts|session::(history|real_drivers|walk)|sharding|thin_link::content)::'
versions='equivalence|sell_out|ddl|errors|groups::settings|outsider|hotspot|queue|order|merge|upsert|corners|share|declared|claims|session|prepared|authentication|pooling|console'

share=${SHARE:-8}
seed=${PACELINE_SAMPLE:-$RANDOM$RANDOM}
echo "a sample of the tests: PACELINE_SAMPLE=$seed draws it again" >&2

# draw WHICH: of the names on standard input, prints those that are drawn (yes) or the others (no).
draw() {
    while read -r name; do
        local sum is=no
        sum=$(cksum <<<"$seed $name")
        ((${sum%% *} % share != 0)) || is=yes
        [[ $is != "$1" ]] || echo "$name"
    done
}

names=$(cargo test -q --workspace --test e2e -- --list | sed -n 's/: test$//p')
case ${1:-} in
    skip)
        echo --exact
        grep -E "$long" <<<"$names" | draw no | sed 's/^/--skip /'
        ;;
    versions)
        echo --exact
        grep -E "$versions" <<<"$names" | draw yes
        ;;
    *)
        echo "sample.sh skip or versions" >&2
        exit 1
        ;;
esac
