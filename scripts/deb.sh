#!/usr/bin/env bash
# Builds target/paceline_VERSION_ARCHITECTURE.deb from target/package/paceline.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/tools.sh cargo-deb
scripts/sbom.sh target/package/paceline.cdx.json

# Changed by the test of an upgrade.
revision=${DEB_REVISION:-1}
stage=target/deb
paceline=target/package/paceline
rm -rf "$stage"
mkdir -p "$stage/man"
"$paceline" man-pages "$stage/man" >/dev/null
gzip -9n "$stage"/man/*
"$paceline" completions bash >"$stage/paceline.bash"
"$paceline" completions zsh >"$stage/_paceline"
"$paceline" completions fish >"$stage/paceline.fish"
cp target/package/paceline.cdx.json "$stage"
version=$("$paceline" --version)
cat >"$stage/changelog" <<CHANGELOG
paceline (${version#paceline }-$revision) stable; urgency=medium

  * Build of commit $(git rev-parse --short=12 HEAD).

 -- The Paceline developers <paceline@localhost>  $(git log -1 --format=%cD)
CHANGELOG
PATH=$PWD/target/tools/bin:$PATH cargo deb --quiet --no-build --no-strip -p paceline --deb-revision "$revision" --output target/
