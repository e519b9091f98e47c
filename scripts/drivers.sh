#!/usr/bin/env bash
# Installs the drivers whose programs the tests run through Paceline into a folder per language under target/drivers. See
# clients.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/clients.sh

sources=$PWD/crates/paceline/tests/e2e/drivers/programs
installed=$PWD/target/drivers

# --- functions that install a driver into the current folder --------------------------------------------------------------------

python() {
    # Wheels only: tests must not require a compiler.
    python3 -m pip install --disable-pip-version-check --only-binary :all: --target . -r "$sources/python/requirements.txt"
}

javascript() {
    cp "$sources"/javascript/package*.json . && npm ci --no-audit --no-fund --ignore-scripts
}

golang() {
    local here=$PWD
    cd "$sources/golang" && CGO_ENABLED=0 GOTOOLCHAIN=local go build -buildvcs=false -o "$here" ./...
}

java() {
    local plugin=org.apache.maven.plugins:maven-dependency-plugin:3.6.1 driver
    driver=$(cat "$sources/java/driver")
    mvn --batch-mode --quiet "$plugin:copy" -Dartifact="$driver" -DoutputDirectory=. -Dmdep.stripVersion=true
    javac -cp postgresql.jar -d . "$sources"/java/*.java
}

install python "python3 --version" requirements.txt
install javascript "node --version" package.json package-lock.json
install golang "go version" go.mod go.sum pgx/main.go pq/main.go say/say.go
install java "javac -version" driver Program.java Sections.java
