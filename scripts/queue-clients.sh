#!/usr/bin/env bash
# Installs the queue clients that the tests run through Paceline: graphile-worker (npm), Procrastinate (PyPI), River (Go). Each
# has a folder under target/queue-clients. See clients.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/clients.sh

sources=$PWD/crates/paceline/tests/e2e/groups/queue_clients
installed=$PWD/target/queue-clients

# --- functions that install a client into the current folder --------------------------------------------------------------------

graphile_worker() {
    cp "$sources"/graphile_worker/package*.json . && npm ci --no-audit --no-fund --ignore-scripts
}

procrastinate() {
    # Wheels only: tests must not require a compiler.
    python3 -m pip install --disable-pip-version-check --only-binary :all: --target . -r "$sources/procrastinate/requirements.txt"
}

river() {
    local here=$PWD
    cd "$sources/river" && CGO_ENABLED=0 GOTOOLCHAIN=local go build -buildvcs=false -o "$here/river" .
}

install graphile_worker "node --version" package.json package-lock.json
install procrastinate "python3 --version" requirements.txt
install river "go version" go.mod go.sum main.go
