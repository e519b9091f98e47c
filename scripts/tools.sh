#!/usr/bin/env bash
# Installs tools that only packages and the site need into target/tools, from crates.io, each in one version: tools.sh NAME…
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=$PWD/target/tools

install() {
    local version=$1 crate=$2
    shift 2
    # cargo's list of what it has installed there.
    if grep -qs "^\"$crate $version " "$tools/.crates.toml"; then return; fi
    echo "setup: installing $crate $version, which takes a minute or two"
    cargo install --quiet --locked --root "$tools" "$@" "$crate@$version"
}

for name in "$@"; do
    case $name in
        cargo-deb) install 3.8.0 cargo-deb ;;
        # Without optimisations it is built in a third of the time, and checks within seconds.
        cargo-deny) install 0.20.2 cargo-deny --debug ;;
        cargo-cyclonedx) install 0.5.9 cargo-cyclonedx ;;
        mdbook) install 0.5.4 mdbook --no-default-features --features search ;;
        *)
            echo "there is no tool \"$name\"" >&2
            exit 1
            ;;
    esac
done
