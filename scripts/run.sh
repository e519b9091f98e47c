#!/usr/bin/env bash
# Starts the quick build with its embedded PostgreSQL, in the foreground, and says how to connect. Arguments are paceline's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

address=127.0.0.1:6432
previous=
for argument in "$@"; do
    case $argument in
        --listen=*) address=${argument#--listen=} ;;
        *) [[ $previous != --listen ]] || address=$argument ;;
    esac
    previous=$argument
done
host=${address%:*}
host=${host#[}
host=${host%]}

echo "starting PostgreSQL and Paceline; Ctrl-C stops both"
echo "connect from another terminal: psql -h $host -p ${address##*:} -U postgres postgres"
# Cargo knows where the build is; it replaces itself by paceline, so that Ctrl-C and signals arrive there.
exec cargo run --quiet --profile quick --bin paceline --no-default-features --features embedded -- "$@"
