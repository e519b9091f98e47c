#!/usr/bin/env bash
# Builds the documents as a site, target/docs/index.html, and checks every link in it. The files have the same places relative to each
# other as in the repository, so links work in both. docs/SUMMARY.md is the table of contents; its links begin in docs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/tools.sh mdbook
stage=target/docs-source
rm -rf "$stage" target/docs
mkdir -p "$stage/src"
cp docs/book.toml "$stage"
cp README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md LICENSE "$stage/src"
cp -r docs deploy "$stage/src"
mkdir -p "$stage/src/scripts" && cp scripts/*.sh scripts/*.py scripts/*.txt "$stage/src/scripts"
sed -E 's#\]\(#](docs/#; s#\]\(docs/\.\./#](#' docs/SUMMARY.md >"$stage/src/SUMMARY.md"
rm "$stage/src/docs/SUMMARY.md" "$stage/src/docs/book.toml"
target/tools/bin/mdbook build --dest-dir "$PWD/target/docs" "$stage"
python3 scripts/site_links.py target/docs
