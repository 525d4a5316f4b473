#!/bin/bash
# Start OAR 2.5.9 (Debian packages) + a private PostgreSQL 15, single host, no systemd.  Idempotent.
# env: OAR_RES=number of cores to declare (default 8), OAR_USER=submitting user (default tester),
#      OAR_CPUSET=1 to keep the cgroup-v1 job resource manager (default 0 = off; portable)
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
STATE=${OAR_STATE:-/var/tmp/rm-oar}; PGPORT=${OAR_PGPORT:-5440}; PGBIN=/usr/lib/postgresql/15/bin
N=${OAR_RES:-8}; U=${OAR_USER:-tester}; CPUSET=${OAR_CPUSET:-0}
here=$(cd "$(dirname "$0")" && pwd)
# 1. packages (no daemon is started by them: policy-rc.d / no systemd)
need=()
for p in oar-server oar-server-pgsql oar-node oar-user oar-user-pgsql postgresql-15 openssh-server libyaml-perl libxml-dumper-perl libjson-perl; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || need+=("$p")
done
if ((${#need[@]})); then
  inst() { apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${need[@]}" >/dev/null; }
  inst || { apt-get update >/dev/null; inst; }
fi
# 2. stop whatever a former run left
"$here/stop_oar.sh" >/dev/null 2>&1 || true
# 3. users
id "$U" >/dev/null 2>&1 || useradd -m -s /bin/bash "$U"
usermod -p '*' oar                       # a '!' password makes sshd (UsePAM no) refuse the key login
# 4. private PostgreSQL, from scratch
rm -rf "$STATE"; install -d -m 755 "$STATE"; install -d -o postgres -g postgres -m 700 "$STATE/pg"
asp() { setpriv --reuid=postgres --regid=postgres --init-groups -- env HOME="$STATE/pg" PATH="$PATH" "$@"; }
cd "$STATE"
asp $PGBIN/initdb -D "$STATE/pg/data" -A trust --no-sync -E UTF8 --locale=C -U postgres >"$STATE/initdb.log" 2>&1
asp $PGBIN/pg_ctl -D "$STATE/pg/data" -w -l "$STATE/pg/pg.log" -o "-p $PGPORT -c listen_addresses=127.0.0.1 -c unix_socket_directories=$STATE/pg -c fsync=off -c max_connections=100" start >"$STATE/pgctl.log" 2>&1
# 5. configuration
cp -p /usr/share/oar/oar-common/oar.conf /etc/oar/oar.conf; chown oar:root /etc/oar/oar.conf; chmod 600 /etc/oar/oar.conf
set_conf() { # key value : set or append
  if grep -q -E "^#?\s*$1=" /etc/oar/oar.conf; then sed -i -E "0,/^#?\s*$1=.*/s||$1=\"$2\"|" /etc/oar/oar.conf; else echo "$1=\"$2\"" >>/etc/oar/oar.conf; fi; }
set_conf DB_TYPE Pg; set_conf DB_HOSTNAME 127.0.0.1; set_conf DB_PORT "$PGPORT"
set_conf DB_BASE_PASSWD oar; set_conf DB_BASE_PASSWD_RO oar_ro
set_conf SERVER_HOSTNAME localhost
set_conf FINAUD_FREQUENCY 0             # no periodic node pings
set_conf SCHEDULER_JOB_SECURITY_TIME 1  # default leaves a 60 s hole between jobs in the gantt
set_conf SCHEDULER_MIN_TIME_BETWEEN_2_CALLS 1  # default 5
set_conf LOG_LEVEL 2
if [ "$CPUSET" != 1 ]; then sed -i -E 's/^(JOB_RESOURCE_MANAGER_PROPERTY_DB_FIELD=)/#\1/' /etc/oar/oar.conf; fi
touch /var/log/oar.log; chown oar:root /var/log/oar.log; : >/var/log/oar.log
# 6. database schema
oar-database --create --db-admin-user=postgres --db-admin-pass=x -y >"$STATE/dbcreate.log" 2>&1
# 7. the node's own sshd on 127.0.0.1:6667
mkdir -p /run/sshd
sed -e '/^ListenAddress/d' /etc/oar/sshd_config >"$STATE/sshd_config"; echo "ListenAddress 127.0.0.1" >>"$STATE/sshd_config"
/usr/sbin/sshd -f "$STATE/sshd_config" -o PidFile="$STATE/sshd.pid" -E "$STATE/sshd.log"
# 8. Almighty in its own session (so that stop can signal exactly that process group)
setsid /usr/sbin/Almighty </dev/null >"$STATE/almighty.out" 2>&1 &
echo $! >"$STATE/almighty.pid"
for i in $(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/6666) 2>/dev/null && break; sleep 0.1; done
# 9. resources
oarproperty -a cpu >/dev/null; oarproperty -a core >/dev/null; oarproperty -a host -c >/dev/null; oarproperty -a mem >/dev/null
ncpu=$(nproc)
for i in $(seq "$N"); do
  oarnodesetting -a -h localhost -p host=localhost -p cpu=1 -p core=$i -p cpuset=$(( (i-1) % ncpu )) -p mem=1024 >/dev/null
done
for i in $(seq 100); do [ "$(oarnodes -s 2>/dev/null | grep -c Alive)" -ge 1 ] && break; sleep 0.1; done
echo "OAR up: $(oarnodes -s 2>/dev/null | tr '\n' ' ')"
