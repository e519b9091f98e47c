#!/usr/bin/env bash
# Installs missing packages, and prints a line per step. Installed packages do not change and require no privileges.
#
#   scripts/setup.sh build   a stable Rust toolchain, a C compiler, libclang (for the SQL parser's bindings)
#   scripts/setup.sh test    the same, a PostgreSQL server with psql and pgbench, Chromium (which shows the lab's reports),
#                            Patroni with etcd, iproute2, Python 3, valgrind, and clients of queues and drivers of other languages (see
#                            queue-clients.sh, drivers.sh)
#   scripts/setup.sh bench   the same as build, a PostgreSQL server with psql and pgbench, PgBouncer, Python 3,
#                            OpenSSL's command, sysbench and valgrind
#   scripts/setup.sh package the same as build, and what builds and tests a Debian package: dpkg-dev, lintian, mmdebstrap, systemd-container
#
# Packages are installed by apt-get if the script runs as root or if sudo requires no password. Otherwise a message lists them.
# No installed service is left running or enabled at boot.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "setup: $*"; }
warn() { echo "setup: $*" >&2; }
die() {
    warn "$*"
    exit 1
}

# --- privileges and packages -------------------------------------------------------------------------------------------------

as_root() {
    if [[ $(id -u) == 0 ]]; then "$@"; else sudo -n "$@"; fi
}

can_install() {
    command -v apt-get >/dev/null || return 1
    [[ $(id -u) == 0 ]] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

lists_are_fresh=no
apt_install() {
    say "installing $* with apt-get"
    if [[ $lists_are_fresh == no ]]; then
        apt_get update
        lists_are_fresh=yes
    fi
    apt_get install -y --no-install-recommends "$@"
}

# Runs apt-get without questions; prints its output only if it fails.
apt_get() {
    local log
    log=$(mktemp)
    if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        die "apt-get $* failed, see above; run it by hand, then try again"
    fi
    rm -f "$log"
}

# need DESCRIPTION PRESENT PACKAGE…: if the command PRESENT fails, installs the packages, or prints what to install and exits.
need() {
    local what=$1 present=$2
    shift 2
    if "$present"; then return; fi
    can_install || die "$what is missing; install it (Debian and Ubuntu: apt-get install $*), then try again"
    apt_install "$@"
    "$present" || die "$what is still missing after installing $*; see whether it is in PATH, then try again"
}

# --- services stay disabled -----------------------------------------------------------------------------------------------------

policy=/usr/sbin/policy-rc.d
clusters=/etc/postgresql-common/createcluster.conf
policy_is_ours=no
clusters_are_changed=no

# Installs packages with a service without starting it, and PostgreSQL without creating a cluster.
apt_install_without_starting() {
    trap restore_services EXIT
    if [[ ! -e $policy ]]; then
        # Debian's policy-rc.d prevents a package from starting its service; 101 means "forbidden by policy".
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        policy_is_ours=yes
        as_root chmod 755 "$policy"
    fi
    apt_install postgresql-common
    if ! grep -Eq '^ *create_main_cluster *= *(false|no|off)' "$clusters"; then
        as_root cp -p "$clusters" "$clusters.paceline"
        clusters_are_changed=yes
        echo 'create_main_cluster = false' | as_root tee -a "$clusters" >/dev/null
    fi
    apt_install "$@"
    restore_services
    trap - EXIT
}

restore_services() {
    if [[ $policy_is_ours == yes ]]; then as_root rm -f "$policy"; fi
    if [[ $clusters_are_changed == yes ]]; then as_root mv "$clusters.paceline" "$clusters"; fi
    policy_is_ours=no
    clusters_are_changed=no
}

# --- requirements of the build --------------------------------------------------------------------------------------------------

need_rust() {
    local how="install a stable Rust toolchain with rustup (https://rustup.rs), then try again"
    command -v cargo >/dev/null && command -v rustc >/dev/null || die "Rust is missing; $how"
    local have want
    have=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) || die "rustc does not run; choose a toolchain: rustup default stable"
    want=$(sed -n 's/^rust-version *= *"\(.*\)".*/\1/p' Cargo.toml)
    if [[ $(printf '%s\n%s\n' "$want" "${have%%-*}" | sort -V | head -n 1) != "$want" ]]; then
        die "Rust $have is too old, $want is needed; update it: rustup update stable"
    fi
    need_component rustfmt "cargo fmt"
    need_component clippy "cargo clippy"
    say "Rust $have"
}

need_component() {
    local component=$1 command=$2
    # Unquoted on purpose: a command and its subcommand.
    # shellcheck disable=SC2086
    if $command --version >/dev/null 2>&1; then return; fi
    command -v rustup >/dev/null || die "$command is missing; install the component $component of your Rust toolchain"
    say "adding $component to the Rust toolchain"
    rustup --quiet component add "$component"
}

has_c_compiler() { command -v cc >/dev/null && command -v make >/dev/null; }

# The library that bindgen loads, and the compiler headers in its development package.
has_libclang() {
    if [[ -n ${LIBCLANG_PATH:-} ]]; then
        [[ -f $LIBCLANG_PATH ]] || any_file "$LIBCLANG_PATH"/libclang*.so* ||
            die "LIBCLANG_PATH names $LIBCLANG_PATH, where no libclang*.so is; correct or unset it"
        return
    fi
    # No pipe: with pipefail, ldconfig fails if grep stops reading early.
    local known
    known=$(ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null || true)
    grep -Eq 'libclang(-[0-9]+)?\.so' <<<"$known" ||
        any_file /usr/lib/llvm-*/lib/libclang{,-[0-9]*}.so* /usr/lib{,64}/libclang.so* /usr/local/lib/libclang.so* || return 1
    any_file /usr/lib/llvm-*/lib/clang/*/include/stddef.h /usr/lib{,64}/clang/*/include/stddef.h \
        /usr/local/lib/clang/*/include/stddef.h
}

any_file() {
    local file
    for file in "$@"; do
        if [[ -e $file ]]; then return; fi
    done
    return 1
}

# --- requirements of the tests --------------------------------------------------------------------------------------------------

has_server() {
    command -v postgres >/dev/null || any_file /usr/lib/postgresql/*/bin/postgres ||
        { command -v pg_config >/dev/null && [[ -x $(pg_config --bindir)/postgres ]]; }
}

# Debian's psql and pgbench are wrappers that may exist without the program.
has_clients() { psql --version >/dev/null 2>&1 && pgbench --version >/dev/null 2>&1; }

need_postgres() {
    if ! has_server || ! has_clients; then
        if can_install; then
            apt_install_without_starting postgresql postgresql-client postgresql-contrib
        fi
        has_server || warn "no PostgreSQL server here; one is downloaded when it is needed (or: apt-get install postgresql)"
        has_clients || warn "psql or pgbench is missing, what uses them fails (apt-get install postgresql-client postgresql-contrib)"
    fi
    if has_clients; then say "$(psql --version)"; fi
}

has_patroni() { command -v patroni >/dev/null && command -v etcd >/dev/null; }

# Without them, the test with Patroni is skipped.
need_patroni() {
    if ! has_patroni; then
        if can_install; then
            apt_install_without_starting patroni etcd-server
            disable patroni
            disable etcd
        fi
        has_patroni || warn "Patroni or etcd is missing, the test with them is skipped (apt-get install patroni etcd-server)"
    fi
    if has_patroni; then say "Patroni and etcd"; fi
}

# Debian installs it in a folder that is not in the PATH of ordinary users.
has_ip() { PATH=$PATH:/usr/sbin:/sbin command -v ip >/dev/null; }

# Without it, the tests in which the network loses packets are skipped; so they are for users other than root.
need_ip() {
    if ! has_ip; then
        if can_install; then apt_install iproute2; fi
        has_ip || warn "ip is missing, the tests in which the network loses packets are skipped (apt-get install iproute2)"
    fi
    if has_ip; then say "iproute2"; fi
}

# Keeps a service from being started at boot.
disable() {
    if [[ -d /run/systemd/system ]]; then
        as_root systemctl --quiet disable "$1"
    elif command -v update-rc.d >/dev/null; then
        as_root update-rc.d "$1" disable
    fi
}

# The browser has one of the names of distributions; Ubuntu's package is a wrapper that may exist without it.
has_chromium() {
    local name
    for name in chromium chromium-browser google-chrome; do
        if "$name" --version >/dev/null 2>&1; then return; fi
    done
    return 1
}

# Debian installs it in a folder that is not in the PATH of ordinary users.
has_pgbouncer() { PATH=$PATH:/usr/sbin command -v pgbouncer >/dev/null; }

need_pgbouncer() {
    if ! has_pgbouncer; then
        can_install || die "PgBouncer is missing; install it (Debian and Ubuntu: apt-get install pgbouncer), then try again"
        apt_install_without_starting pgbouncer
        disable pgbouncer
    fi
    say "PgBouncer"
}

# Required by scripts/reads.py, scripts/hold.py and scripts/cost.py.
has_python() { command -v python3 >/dev/null; }

# Creates the certificate for scripts/pooler.sh.
has_openssl() { command -v openssl >/dev/null; }
has_sysbench() { command -v sysbench >/dev/null; }
has_valgrind() { command -v valgrind >/dev/null; }

# --- requirements of the Debian package -----------------------------------------------------------------------------------------

has_shlibdeps() { command -v dpkg-shlibdeps >/dev/null; }
has_lintian() { command -v lintian >/dev/null; }
has_mmdebstrap() { command -v mmdebstrap >/dev/null; }
has_nspawn() { command -v systemd-nspawn >/dev/null; }

# --- the levels -----------------------------------------------------------------------------------------------------------------

level=${1:-build}
case $level in
    build | test | bench | package) ;;
    *) die "there is no level \"$level\"; write build, test, bench or package" ;;
esac

need_rust
need "a C compiler" has_c_compiler gcc libc6-dev make
need "libclang" has_libclang libclang-dev
say "C compiler and libclang"
if [[ $level == package ]]; then
    need "dpkg-shlibdeps" has_shlibdeps dpkg-dev
    need "lintian" has_lintian lintian
    need "mmdebstrap" has_mmdebstrap mmdebstrap
    need "systemd-nspawn" has_nspawn systemd-container
fi
if [[ $level == test || $level == bench ]]; then
    need_postgres
    need "Python 3" has_python python3
    need "valgrind" has_valgrind valgrind
fi
if [[ $level == test ]]; then
    need "Chromium" has_chromium chromium
    say "Chromium"
    need_patroni
    need_ip
    scripts/queue-clients.sh
    scripts/drivers.sh
fi
if [[ $level == bench ]]; then
    need_pgbouncer
    need "sysbench" has_sysbench sysbench
    need "OpenSSL's command" has_openssl openssl
fi
