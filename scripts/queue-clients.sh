#!/usr/bin/env bash
# Installs the clients of queues that the tests run through Paceline: graphile-worker (npm), Procrastinate (PyPI), River (Go).
# Each gets a folder under target/queue-clients, and is fetched again only when what it is made from has changed. One that
# cannot be had on this machine is left out: the reason is printed, and kept for the test, which repeats it and passes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sources=$PWD/crates/proxy/tests/e2e/queue_clients
installed=$PWD/target/queue-clients

# --- how each is installed into the folder where it is called -------------------------------------------------------------------

graphile_worker() {
    cp "$sources"/graphile_worker/package*.json . && npm ci --no-audit --no-fund --ignore-scripts
}

procrastinate() {
    # Wheels only: nobody's machine should have to compile for a test.
    python3 -m pip install --disable-pip-version-check --only-binary :all: --target . -r "$sources/procrastinate/requirements.txt"
}

river() {
    local here=$PWD
    cd "$sources/river" && CGO_ENABLED=0 GOTOOLCHAIN=local go build -buildvcs=false -o "$here/river" .
}

# --- when -------------------------------------------------------------------------------------------------------------------------

# install CLIENT VERSION FILE…: VERSION is a command that shows the version of the tool that installs it, FILEs are what it reads.
install() {
    local client=$1 version=$2 folder=$installed/$1 log=$installed/$1.log made_from
    shift 2
    mkdir -p "$folder"
    # Unquoted on purpose: a command and its argument.
    # shellcheck disable=SC2086
    if ! made_from=$($version 2>&1 && cd "$sources/$client" && sha256sum "$@"); then
        leave_out "$client" "${version%% *} does not run here"
    elif [[ $(cat "$folder/ready" 2>/dev/null) != "$made_from" ]]; then
        echo "setup: installing $client for the tests"
        rm -rf "$folder"
        mkdir "$folder"
        if (cd "$folder" && "$client") >"$log" 2>&1; then
            echo "$made_from" >"$folder/ready"
        else
            leave_out "$client" "it cannot be installed: $(tail -n 1 "$log")"
        fi
    fi
}

leave_out() {
    rm -f "$installed/$1/ready"
    echo "$2" >"$installed/$1/missing"
    echo "setup: the tests leave out $1: $2" >&2
}

install graphile_worker "node --version" package.json package-lock.json
install procrastinate "python3 --version" requirements.txt
install river "go version" go.mod go.sum main.go
