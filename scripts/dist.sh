#!/usr/bin/env bash
# Builds paceline with every optimisation (the profile release) and puts it into a folder: dist.sh FOLDER ARGUMENTS_OF_CARGO…
# FOLDER/paceline has no symbols; they are beside it in FOLDER/paceline.debug, where debuggers, perf and valgrind look for them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$1
shift
echo 'building with every optimisation, which takes minutes'
profile=$PWD/target/profile/paceline.profdata
if [[ -f $profile ]]; then
    export RUSTFLAGS="${RUSTFLAGS:-} -C profile-use=$profile"
else
    echo "without a profile of how often which code runs; make profile records one"
fi
built=$(cargo build --release -p paceline --bin paceline --message-format json-render-diagnostics "$@" |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
mkdir -p "$folder"
new=$(mktemp -d "$folder/new.XXXXXX")
trap 'rm -rf "$new"' EXIT
objcopy --only-keep-debug "$built" "$new/paceline.debug"
chmod -x "$new/paceline.debug"
# objcopy notes the name and the checksum of the file with the symbols.
(cd "$new" && objcopy --strip-all --add-gnu-debuglink=paceline.debug "$built" paceline)
mv -f "$new/paceline.debug" "$new/paceline" "$folder"
echo "$folder/paceline"
