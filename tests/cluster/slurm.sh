#!/usr/bin/env bash
# A real SLURM on this machine, for tests: one node, this host's cores, everything in one folder.
#
#   slurm.sh start FOLDER     then: export SLURM_CONF=FOLDER/slurm.conf
#   slurm.sh stop FOLDER
#
# Needs root and Debian's packages (`apt-get install slurm-wlm munge`; tried with 22.05). No systemd, no cgroups and
# no accounting database: `sacct` does not answer here, as on some real clusters.
set -euo pipefail
verb=$1 folder=$(realpath -m "$2")
PATH=$PATH:/usr/sbin

stop() {
    for name in slurmd slurmctld munged; do
        test -f "$folder/$name.pid" || continue
        kill "$(cat "$folder/$name.pid")" 2>/dev/null || true
        rm -f "$folder/$name.pid"
    done
}

wait_for() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        test $SECONDS -lt $end || { echo "slurm.sh: gave up waiting for: $*" >&2; return 1; }
        sleep 0.2
    done
}

start() {
    for command in munged slurmctld slurmd sbatch srun; do
        command -v $command >/dev/null || { echo "slurm.sh: $command is not installed" >&2; return 1; }
    done
    test "$(id -u)" = 0 || { echo "slurm.sh: the daemons need root" >&2; return 1; }
    mkdir -p "$folder"/{state,spool,munge}
    chmod 755 "$folder"
    # A key, socket and log of our own: nothing of the machine's own munge is touched.
    head -c 1024 /dev/urandom >"$folder/munge/key"
    chmod 600 "$folder/munge/key"
    munged --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" \
        --pid-file="$folder/munged.pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed"
    local host ports cores
    host=$(hostname -s) cores=$(getconf _NPROCESSORS_ONLN)
    cores=$((cores < 2 ? 2 : cores)) # two tasks at a time even on one core; config_overrides lets it pass
    ports=$(python3 -c 'import socket; s = [socket.socket() for _ in "12"]; [x.bind(("127.0.0.1", 0)) for x in s]; print(*(x.getsockname()[1] for x in s))')
    cat >"$folder/slurm.conf" <<CONF
ClusterName=calibench
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports% *}
SlurmdPort=${ports#* }
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmdParameters=config_overrides
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=10
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cores RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
    export SLURM_CONF=$folder/slurm.conf
    slurmctld -f "$SLURM_CONF"
    slurmd -f "$SLURM_CONF"
    wait_for 30 sh -c 'sinfo --noheader --format=%T | grep -q idle'
}

case $verb in
start) start || { stop; exit 1; } ;;
stop) stop ;;
*) echo "usage: slurm.sh start|stop FOLDER" >&2; exit 2 ;;
esac
