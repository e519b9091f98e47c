# Debian's source packages, and files of packages that are not installed. The configuration of apt on the machine does not
# change: lists and archives are stored in a separate folder. Sourced by bash scripts with `set -euo pipefail`, not run.
# shellcheck shell=bash

debian_folder=$PWD/target/debian-packages

# Copies the machine's sources of Debian, Ubuntu and PostgreSQL and adds source packages. Other sources are not needed and may
# not answer.
copy_sources() {
    local from to=$debian_folder/sources
    rm -rf "$to"
    mkdir -p "$to"
    for from in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [[ -f $from ]] && grep -Eqi 'debian|ubuntu|postgresql' "$from" || continue
        case $from in
            *.list) sed -En 's/^deb(-src)?[[:space:]]+(.*)/deb \2\ndeb-src \2/p' "$from" | sort -u >"$to/${from##*/}" ;;
            *.sources) sed -E 's/^Types:.*/Types: deb deb-src/' "$from" >"$to/${from##*/}" ;;
        esac
    done
}

# apt_own COMMAND ARGUMENTS…: runs a program of apt with the sources, lists and archives of this folder. As root, apt would
# otherwise switch to a user that cannot write to the folder.
apt_own() {
    local command=$1
    shift
    "$command" -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$debian_folder/sources" -o Dir::State::lists="$debian_folder/lists" \
        -o Dir::Cache="$debian_folder/cache" -o APT::Sandbox::User="$(id -un)" "$@"
}

# Runs once per script.
update_lists() {
    [[ -z ${debian_lists_are_fresh:-} ]] || return 0
    command -v apt-get >/dev/null || return 1
    mkdir -p "$debian_folder"/{lists,cache/archives}/partial
    copy_sources
    apt_own apt-get update >"$debian_folder/log" 2>&1 || return 1
    debian_lists_are_fresh=yes
}

# fetch_source PACKAGE[=VERSION]: downloads the source package to the current folder. If that fails, $debian_folder/log contains
# the reason.
fetch_source() {
    update_lists && apt_own apt-get source --download-only "$1" >"$debian_folder/log" 2>&1
}

# unpack_package PACKAGE=VERSION FOLDER: unpacks a binary package into the folder without installing it.
unpack_package() {
    local into=$2
    update_lists && apt_own apt-get download "$1" >"$debian_folder/log" 2>&1 && dpkg -x "${1%%=*}"_*.deb "$into"
}
