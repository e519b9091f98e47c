#!/usr/bin/env bash
# Writes the software bill of materials of the build for production (CycloneDX, JSON): sbom.sh FILE.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/tools.sh cargo-cyclonedx
file=$1
# cargo-cyclonedx writes a file beside every Cargo.toml of the workspace.
name=sbom-being-written
trap 'rm -f crates/*/"$name".json' EXIT
PATH=$PWD/target/tools/bin:$PATH cargo cyclonedx --quiet --format json --no-default-features \
    --manifest-path crates/paceline/Cargo.toml --override-filename "$name"
mkdir -p "$(dirname "$file")"
# Without the folder of this machine.
sed "s|path+file://$PWD/|path+file:///|g; s|file://\\.|file:///|g" crates/paceline/"$name".json >"$file"
echo "$file"
