#!/usr/bin/env bash
# Starts the quick build with its embedded PostgreSQL in the foreground and prints how to connect. Arguments are passed to
# paceline.
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
# Cargo knows the location of the binary and replaces itself by paceline, so that paceline receives Ctrl-C and signals.
exec cargo run --quiet --profile quick --bin paceline --no-default-features --features embedded -- "$@"
