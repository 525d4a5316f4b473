#!/bin/bash
# Stop what start_grid_engine.sh started, by pid file.  --purge also removes the cell's state (start_grid_engine.sh makes it anew).
export SGE_ROOT=/var/lib/gridengine SGE_CELL=default; R=/run/gridengine
stop() { [ -s "$1" ] || return 0; local p; p=$(cat "$1")
  if kill -0 "$p" 2>/dev/null; then kill -TERM "$p"; for ((i=0;i<200;i++)); do kill -0 "$p" 2>/dev/null || break; sleep 0.1; done; kill -0 "$p" 2>/dev/null && kill -KILL "$p"; fi; rm -f "$1"; }
timeout 10 qstat -u '*' >/dev/null 2>&1 && { timeout 10 qdel -f -u '*' >/dev/null 2>&1; sleep 1; }
Q=/var/spool/gridengine/qmaster/qmaster.pid   # not /run: sge_qmaster ignores SGE_MASTER_PIDFILE
stop $R/execd.pid; stop $Q
if (exec 3<>/dev/tcp/127.0.0.1/6444) 2>/dev/null; then echo "[stop_grid_engine] ERROR: port 6444 still served" >&2; exit 1; fi
[ "${1:-}" != --purge ] || rm -rf /var/spool/gridengine/{spooldb,qmaster,execd}/* "$SGE_ROOT/default/common/accounting"
echo "[stop_grid_engine] done"
