#!/bin/bash
# The part of scripts/test-deb.sh that runs inside the container. Any command that fails ends it.
set -Eeuo pipefail
trap 'echo "FAILED in line $LINENO: $BASH_COMMAND"; systemctl status paceline --no-pager --full || true; journalctl -u paceline --no-pager | tail -n 30' ERR

ok() { echo "ok: $*"; }

# Repeats a command until it succeeds.
until_true() {
    local attempts=0
    until "$@" >/dev/null 2>&1; do
        attempts=$((attempts + 1))
        if [[ $attempts -ge 300 ]]; then
            echo "never true: $*"
            return 1
        fi
        sleep 0.1
    done
}

fails() { if "$@"; then return 1; fi; }

as_postgres() { runuser -u postgres -- psql -qAtX "$@"; }

# A query through Paceline, as app.
through() { PGPASSWORD=${PASSWORD:-secret} PGCONNECT_TIMEOUT=10 psql -qAtX -h 127.0.0.1 -p 6432 -U app postgres "$@"; }

export DEBIAN_FRONTEND=noninteractive
until_true runuser -u postgres -- pg_isready -q
as_postgres -c "CREATE ROLE app LOGIN PASSWORD 'secret'" -c "GRANT CREATE ON SCHEMA public TO app"

# --- install -----------------------------------------------------------------------------------------------------------------
dpkg -i /test/old.deb
systemctl is-active --quiet paceline
systemctl is-enabled --quiet paceline
[[ $(stat -c '%U:%G %a' /etc/paceline/userlist.txt /etc/paceline/paceline.toml | sort -u) == "root:paceline 640" ]]
fails runuser -u nobody -- cat /etc/paceline/userlist.txt 2>/dev/null
[[ $(systemctl show -P User paceline) == paceline ]]
ps -o user= -p "$(systemctl show -P MainPID paceline)" | grep -qx paceline
ok "installed, started, enabled; it runs as the user paceline, and only that user and root can read its secrets"

paceline check /etc/paceline/paceline.toml | grep -q 'is valid'
for page in 'paceline.1' 'paceline-check.1' 'paceline.toml.5'; do
    man -w "${page##*.}" "${page%.*}" >/dev/null
    test -z "$(man --warnings -E UTF-8 -l "/usr/share/man/man${page##*.}/$page.gz" 2>&1 >/dev/null)"
done
bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader paceline || true; complete -p paceline' | grep -q paceline
ok "man pages are shown without a warning, and bash completes the command"

# --- use ---------------------------------------------------------------------------------------------------------------------
fails through -c 'SELECT 1' 2>/dev/null
echo "\"app\" \"$(as_postgres -c "SELECT rolpassword FROM pg_authid WHERE rolname = 'app'")\"" >>/etc/paceline/userlist.txt
systemctl reload paceline
until_true through -c 'SELECT 1'
[[ $(through -c 'SELECT current_user') == app ]]
PASSWORD=wrong fails through -c 'SELECT 1' 2>/dev/null
runuser -u postgres -- test -S /run/paceline/.s.PGSQL.6432
ok "no user can log in before userlist.txt has a line for it; after a reload the user can"

kill -KILL "$(systemctl show -P MainPID paceline)"
until_true through -c 'SELECT 1'
[[ $(systemctl show -P NRestarts paceline) -ge 1 ]]
ok "systemd starts it again after kill -9"

# --- upgrade -----------------------------------------------------------------------------------------------------------------
through -c 'CREATE TABLE kept (n int)'
before=$(systemctl show -P MainPID paceline)
# A transaction that is open during the upgrade.
mkfifo /test/commands
through -v ON_ERROR_STOP=1 </test/commands >/test/transaction 2>&1 &
client=$!
exec 3>/test/commands
echo 'BEGIN; INSERT INTO kept VALUES (1); SELECT $$open$$;' >&3
until_true grep -q open /test/transaction
dpkg -i /test/new.deb &
upgrade=$!
until_true journalctl -u paceline --no-pager -g 'SIGINT|shut'
echo 'INSERT INTO kept VALUES (2); COMMIT;' >&3
exec 3>&-
wait "$client"
wait "$upgrade"
until_true through -c 'SELECT 1'
[[ $(through -c 'SELECT count(*) FROM kept') == 2 ]]
[[ $(systemctl show -P MainPID paceline) != "$before" ]]
grep -q '"app"' /etc/paceline/userlist.txt
[[ $(dpkg-query -W -f '${Version}' paceline) == *-2 ]]
ok "an upgrade restarts it, lets an open transaction commit, and keeps the administrator's files"

# --- remove ------------------------------------------------------------------------------------------------------------------
dpkg -r paceline
fails systemctl is-active --quiet paceline
test ! -e /usr/bin/paceline
test -e /etc/paceline/userlist.txt
fails pgrep -x paceline
dpkg -P paceline
test ! -e /etc/paceline
test ! -e /run/paceline
fails systemctl cat paceline >/dev/null 2>&1
fails ls /etc/systemd/system/*/paceline.service 2>/dev/null
ok "removed: stopped, the configuration stays; purged: nothing is left but the system user"
echo "the package passed"
