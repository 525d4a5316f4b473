#!/bin/bash
# Start a real single-host Son of Grid Engine 8.1.9 cell (Debian 12 packages), no systemd.  Idempotent.
# Env: SGE_SLOTS (8), SGE_TEST_USER (tester)
set -euo pipefail
SLOTS=${SGE_SLOTS:-8}; TUSER=${SGE_TEST_USER:-tester}
export DEBIAN_FRONTEND=noninteractive SGE_ROOT=/var/lib/gridengine SGE_CELL=default
export SGE_SINGLE_LINE=1
R=/run/gridengine; export SGE_EXECD_PIDFILE=$R/execd.pid   # execd honours this; sge_qmaster IGNORES SGE_MASTER_PIDFILE
SP=/var/spool/gridengine; QPID=$SP/qmaster/qmaster.pid; C=$SGE_ROOT/$SGE_CELL/common
log() { echo "[start_grid_engine] $*"; }
alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }
wait_for() { local n=$(( $1 * 10 )) what=$2; shift 2; for ((i=0;i<n;i++)); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; log "TIMEOUT waiting for $what"; return 1; }

pk=(gridengine-master gridengine-exec gridengine-client)
if ! dpkg -s "${pk[@]}" >/dev/null 2>&1; then
  log "installing ${pk[*]}"
  debconf-set-selections <<E
gridengine-common shared/gridenginecell string default
gridengine-common shared/gridenginemaster string localhost
gridengine-common shared/gridengineconfig boolean true
gridengine-master shared/gridenginemaster string localhost
gridengine-master shared/gridenginecell string default
gridengine-master shared/gridengineconfig boolean true
gridengine-client shared/gridenginemaster string localhost
gridengine-client shared/gridenginecell string default
gridengine-client shared/gridengineconfig boolean true
gridengine-exec shared/gridenginemaster string localhost
gridengine-exec shared/gridenginecell string default
gridengine-exec shared/gridengineconfig boolean true
E
  inst() { apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confmiss "${pk[@]}" >/tmp/start_grid_engine.apt.log 2>&1; }
  inst || { apt-get update >/dev/null; inst; }
fi
id "$TUSER" >/dev/null 2>&1 || useradd -m -s /bin/bash "$TUSER"
install -d -o sgeadmin -g sgeadmin -m 755 $R $C $SP/qmaster $SP/execd $SP/spooldb
# one name for this machine, whatever /etc/hosts says: everything becomes "localhost"
echo localhost > $C/act_qmaster
echo "localhost $(hostname -s) $( [ "$(hostname -f 2>/dev/null)" != "$(hostname -s)" ] && hostname -f 2>/dev/null || true)" | sed 's/localhost localhost/localhost/; s/ localhost\( \|$\)/ /2' > $C/host_aliases
chown sgeadmin: $C/act_qmaster $C/host_aliases
cat > $C/bootstrap <<E
Version: 6.2
admin_user              sgeadmin
default_domain          none
ignore_fqdn             true
spooling_method         berkeleydb
spooling_lib            libspoolb
spooling_params         $SP/spooldb
binary_path             /usr/sbin
qmaster_spool_dir       $SP/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
E
[ -e $SP/spooldb/sge ] || su -s /bin/sh -c "/usr/share/gridengine/scripts/init_cluster $SGE_ROOT $SGE_CELL $SP/spooldb sgeadmin" sgeadmin >/tmp/start_grid_engine.init.log 2>&1

A() { setpriv --reuid sgeadmin --regid sgeadmin --clear-groups env SGE_ROOT=$SGE_ROOT SGE_CELL=$SGE_CELL "$@"; }
if ! alive $QPID; then
  # a qmaster that we have no pid for would answer in place of ours: refuse
  if (exec 3<>/dev/tcp/127.0.0.1/6444) 2>/dev/null; then log "port 6444 is already served by an unknown qmaster"; exit 1; fi
  rm -f $QPID; sge_qmaster
fi
wait_for 20 qmaster qconf -sconf
wait_for 5 "qmaster pid file" test -s $QPID; alive $QPID

# ---------- configuration (each step is idempotent)
A qconf -am root >/dev/null 2>&1 || true
A qconf -ah localhost >/dev/null 2>&1 || true
A qconf -as localhost >/dev/null 2>&1 || true
T=$(mktemp -d); chmod 755 "$T"
qconf -sconf | awk '$1=="max_unheard"{print "max_unheard 00:00:20";next} $1=="reporting_params"{print "reporting_params accounting=true reporting=false flush_time=00:00:01 joblog=false accounting_flush_time=00:00:00";next} $1=="load_report_time"{print "load_report_time 00:00:05";next} $1=="finished_jobs"{print "finished_jobs 1000";next} $1=="shell_start_mode"{print "shell_start_mode unix_behavior";next} $1=="mailer"{print "mailer /bin/true";next} $1=="max_aj_tasks"{print "max_aj_tasks 75000";next} {print}' > "$T/global"
qconf -Mconf "$T/global" >/dev/null 2>&1 || log "Mconf failed"
qconf -ssconf | awk '$1=="schedule_interval"{print "schedule_interval 0:0:1";next} $1=="flush_submit_sec"{print "flush_submit_sec 1";next} $1=="flush_finish_sec"{print "flush_finish_sec 1";next} $1=="schedd_job_info"{print "schedd_job_info true";next} $1=="load_formula"{print "load_formula slots";next} $1=="job_load_adjustments"{print "job_load_adjustments NONE";next} {print}' > "$T/sched"
qconf -Msconf "$T/sched" >/dev/null 2>&1 || log "Msconf failed"
cat > "$T/smp" <<E
pe_name            smp
slots              999
user_lists         NONE
xuser_lists        NONE
start_proc_args    /bin/true
stop_proc_args     /bin/true
allocation_rule    \$pe_slots
control_slaves     FALSE
job_is_first_task  TRUE
urgency_slots      min
accounting_summary TRUE
qsort_args         NONE
E
qconf -sp smp >/dev/null 2>&1 || qconf -Ap "$T/smp" >/dev/null
qconf -shgrp @allhosts >/dev/null 2>&1 || { printf 'group_name @allhosts\nhostlist localhost\n' >"$T/hg"; qconf -Ahgrp "$T/hg" >/dev/null; }
# execution host with a consumable memory complex is left to the caller; queues:
for q in all.q long.q; do
  if ! qconf -sq $q >/dev/null 2>&1; then
    qconf -sq | awk -v q=$q -v s=$SLOTS '$1=="qname"{print "qname " q;next} $1=="hostlist"{print "hostlist @allhosts";next} $1=="slots"{print "slots " s;next} $1=="pe_list"{print "pe_list smp";next} $1=="load_thresholds"{print "load_thresholds NONE";next} $1=="shell"{print "shell /bin/bash";next} $1=="rerun"{print "rerun FALSE";next} $1=="notify"{print "notify 00:00:02";next} {print}' > "$T/q"
    qconf -Aq "$T/q" >/dev/null
  fi
done
rm -rf "$T"
# ---------- execd
if ! alive $SGE_EXECD_PIDFILE; then rm -f $SGE_EXECD_PIDFILE; sge_execd; fi
up() { [ "$(qstat -f | awk '$1 ~ /^(all|long).q@/ && NF==5' | wc -l)" = 2 ]; }   # a 6th column is a state (au, d, E): not ready
wait_for 30 execd up
qstat -f
log "ready (SGE_ROOT=$SGE_ROOT SGE_CELL=$SGE_CELL)"
