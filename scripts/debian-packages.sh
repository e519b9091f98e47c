# Debian's source packages, and files of packages that are not installed. The machine's own apt is left as it is: lists and archives are kept in
# a folder of their own. Sourced, not run, by a bash script with `set -euo pipefail`.
# shellcheck shell=bash

debian_folder=$PWD/target/debian-packages

# Copies of those of the machine's sources that are Debian's, Ubuntu's or PostgreSQL's, with source packages added. Others are not needed, and may not answer.
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

# apt_own COMMAND ARGUMENTS…: a program of apt with this folder's sources, lists and archives. As root it would otherwise become a user that cannot write here.
apt_own() {
    local command=$1
    shift
    "$command" -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$debian_folder/sources" -o Dir::State::lists="$debian_folder/lists" \
        -o Dir::Cache="$debian_folder/cache" -o APT::Sandbox::User="$(id -un)" "$@"
}

# Once per run of the script.
update_lists() {
    [[ -z ${debian_lists_are_fresh:-} ]] || return 0
    command -v apt-get >/dev/null || return 1
    mkdir -p "$debian_folder"/{lists,cache/archives}/partial
    copy_sources
    apt_own apt-get update >"$debian_folder/log" 2>&1 || return 1
    debian_lists_are_fresh=yes
}

# fetch_source PACKAGE[=VERSION]: downloads the source package into the current folder. Fails, with the reason in $debian_folder/log, if it cannot be had.
fetch_source() {
    update_lists && apt_own apt-get source --download-only "$1" >"$debian_folder/log" 2>&1
}

# unpack_package PACKAGE=VERSION FOLDER: unpacks a binary package into the folder, without installing it.
unpack_package() {
    local into=$2
    update_lists && apt_own apt-get download "$1" >"$debian_folder/log" 2>&1 && dpkg -x "${1%%=*}"_*.deb "$into"
}
