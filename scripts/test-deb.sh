#!/usr/bin/env bash
# Installs, starts, upgrades and removes the Debian package in a container with systemd and a PostgreSQL of its own; needs root. The
# package of the upgrade has the same program and a higher revision. The container sees no network of this machine.
#
#   scripts/test-deb.sh OLD.deb NEW.deb
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

LIMIT=300 # seconds
old=$1 new=$2
[[ $(id -u) == 0 ]] || {
    echo "test-deb.sh needs root: it starts a container" >&2
    exit 1
}
folder=$(mktemp -d /var/tmp/paceline-deb.XXXXXX)
trap 'rm -rf "$folder"' EXIT
root=$folder/root

# The system, which apt fetches once.
system=target/deb-test/system.tar
if [[ ! -f $system ]]; then
    echo "building the system of the container"
    mkdir -p target/deb-test
    mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,adduser,procps,man-db,bash-completion,postgresql \
        "$(. /etc/os-release && echo "$VERSION_CODENAME")" "${system%.tar}.new.tar"
    mv "${system%.tar}.new.tar" "$system"
fi
mkdir "$root"
tar -C "$root" -xf "$system"

# systemd of the container runs the test as its last service, and then ends the container.
mkdir "$root/test"
cp "$old" "$root/test/old.deb"
cp "$new" "$root/test/new.deb"
cp scripts/test-deb-inside.sh "$root/test/run"
cat >"$root/etc/systemd/system/package-test.service" <<'UNIT'
[Unit]
Description=Test of the package
After=multi-user.target postgresql.service

[Service]
Type=oneshot
ExecStart=/bin/bash /test/run
ExecStopPost=/bin/systemctl --no-block poweroff
StandardOutput=file:/test/output
StandardError=file:/test/output

[Install]
WantedBy=default.target
UNIT
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -s ../package-test.service "$root/etc/systemd/system/default.target.wants/"

timeout --kill-after 10 "$LIMIT" systemd-nspawn --quiet --register=no --keep-unit --private-network --directory "$root" --boot \
    </dev/null >"$folder/console" 2>&1 || true
cat "$root/test/output" 2>/dev/null || tail -n 50 "$folder/console"
# The last line of the test.
[[ $(tail -n 1 "$root/test/output" 2>/dev/null) == "the package passed" ]]
