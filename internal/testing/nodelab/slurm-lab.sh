#!/bin/bash
# slurm-lab.sh: Slurm on the nodes of node-lab.sh: slurmctld on n1, a slurmd on each, munge.
#
# Needs node-lab.sh up and: apt-get install slurmctld slurmd slurm-client munge
# Everything is in the nodes' own namespaces and in LAB_DIR/slurm, and goes with node-lab.sh down.
# Exit status 77: not possible here; 78: it would be, with packages that are missing.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

LAB_DIR=${LAB_DIR:-/var/tmp/gorun-lab}
SLURM_CPUS=${SLURM_CPUS:-16}       # what each node is said to have
SLURMD_TIMEOUT=${SLURMD_TIMEOUT:-30} # seconds after which a silent node is down; Slurm's default is 300
KILL_WAIT=${KILL_WAIT:-5}          # seconds from SIGTERM to SIGKILL; Slurm's default is 30
CRED_EXPIRE=${CRED_EXPIRE:-10}     # seconds; a job that is requeued waits a second longer than that. Slurm's default is 120
GRACE=${GRACE:-30}                 # seconds that a preempted job has from SIGTERM on
here=$(cd "$(dirname "$0")" && pwd)
S=$LAB_DIR/slurm

usage() {
	cat <<'TEXT'
usage: slurm-lab.sh COMMAND
  up                    start munge, slurmctld (n1) and slurmd (all nodes), wait until all are idle
  down                  end them; the nodes stay
  run [-u worker] CMD   run sbatch, srun, squeue, scontrol ... on n1
  fail NODE             power cut of a node (node-lab.sh kill)
  repair NODE           power on again, with munge and slurmd
  wait JOBID STATE [S]  until the job is in the state (at most S seconds, default 120); prints how long
  demo                  an srun, the signal before the time limit, a requeue, a node that fails
  status                sinfo, squeue
Jobs of partition urgent preempt those of partition lab, which is the default.
SLURMD_TIMEOUT, KILL_WAIT, CRED_EXPIRE, GRACE and SLURM_CPUS in the environment of up go into slurm.conf.
TEXT
}

die() { echo "slurm-lab: $*" >&2; exit 1; }
skip() { echo "slurm-lab: not possible here: $*" >&2; exit 77; }
lack() { echo "slurm-lab: missing: $*" >&2; exit 78; }
lab() { LAB_DIR=$LAB_DIR bash "$here/node-lab.sh" "$@"; }
on() { local node=$1; shift; LAB_DIR=$LAB_DIR bash "$here/node-lab.sh" exec "$node" "$@"; }
now() { date +%s.%N; }
since() { echo "$(now) $1" | awk '{ printf "%.1f", $1 - $2 }'; }

capable() {
	local tool missing=()
	[ -e "$LAB_DIR/.gorun-lab" ] || skip "node-lab.sh up comes first"
	for tool in munged slurmctld slurmd srun sbatch; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	[ ${#missing[@]} = 0 ] || lack "${missing[*]} (apt-get install slurmctld slurmd slurm-client munge)"
}

configure() {
	local n
	n=$(cat "$LAB_DIR/count")
	install -d -m 0755 "$S" "$S/etc" "$S/log"
	install -d -m 0700 "$S/state"
	head -c 128 /dev/urandom >"$S/munge.key"
	chmod 0400 "$S/munge.key"
	cat >"$S/etc/slurm.conf" <<-TEXT
		ClusterName=lab
		SlurmctldHost=n1
		SlurmUser=root
		SlurmdUser=root
		AuthType=auth/munge
		CredType=cred/munge
		AuthInfo=cred_expire=$CRED_EXPIRE
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		MpiDefault=none
		ReturnToService=2
		JobRequeue=1
		SlurmdParameters=config_overrides
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		SchedulerType=sched/backfill
		SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
		StateSaveLocation=$S/state
		SlurmdSpoolDir=/run/slurmd
		SlurmctldPidFile=/run/slurmctld.pid
		SlurmdPidFile=/run/slurmd.pid
		SlurmctldLogFile=$S/log/slurmctld.log
		SlurmdLogFile=$S/log/slurmd.%n.log
		SlurmctldDebug=info
		SlurmctldTimeout=30
		SlurmdTimeout=$SLURMD_TIMEOUT
		KillWait=$KILL_WAIT
		InactiveLimit=0
		MessageTimeout=10
		NodeName=n[1-$n] CPUs=$SLURM_CPUS RealMemory=1000 State=UNKNOWN
		PreemptType=preempt/partition_prio
		PreemptMode=REQUEUE
		SlurmctldParameters=preempt_send_user_signal
		PartitionName=lab Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=$GRACE
		PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
	TEXT
}

# What runs on a node: a mount that only the node sees, munge, slurmd.
node_up() {
	# shellcheck disable=SC2016
	on "$1" /bin/bash -c 'set -eu
		mountpoint -q /etc/slurm || mount --bind "$1/etc" /etc/slurm
		install -d -m 0755 /run/munge /run/slurmd
		[ -S /run/munge/munge.socket.2 ] && munge -n >/dev/null 2>&1 ||
			/usr/sbin/munged --force --key-file="$1/munge.key" --socket=/run/munge/munge.socket.2 \
				--pid-file=/run/munge/munged.pid --log-file=/run/munge/munged.log --seed-file=/run/munge/seed
		if [ "$2" = n1 ] && ! pidof slurmctld >/dev/null; then /usr/sbin/slurmctld; fi
		pidof slurmd >/dev/null || /usr/sbin/slurmd -N "$2"' bash "$S" "$1" </dev/null
}

up() {
	local node t k
	capable
	[ -e "$S" ] && die "$S exists: slurm-lab.sh down first"
	configure
	t=$(now)
	for node in $(lab hosts); do node_up "$node"; done
	for ((k = 0; k < 600; k++)); do
		[ "$(on n1 sinfo -h -t idle -o %D 2>/dev/null || true)" = "$(cat "$LAB_DIR/count")" ] && break
		sleep 0.2
	done
	on n1 sinfo
	[ $k -lt 600 ] || die "not all nodes are idle"
	echo "up after $(since "$t") s"
}

down() {
	local node
	[ -e "$S/etc/slurm.conf" ] || { echo "slurm-lab: nothing to take down"; return 0; }
	for node in $(lab hosts); do
		# Only what runs in this node's process namespace is seen there.
		# shellcheck disable=SC2016
		on "$node" /bin/bash -c 'for f in /run/slurmctld.pid /run/slurmd.pid /run/munge/munged.pid; do
			[ -e "$f" ] && kill "$(cat "$f")" 2>/dev/null; done
			for k in $(seq 50); do pidof slurmd slurmctld munged >/dev/null || break; sleep 0.1; done
			for p in $(pidof slurmd slurmctld munged slurmstepd); do kill -KILL "$p"; done
			umount /etc/slurm 2>/dev/null; true' </dev/null 2>/dev/null || true
	done
	rm -rf --one-file-system "${S:?}"
	echo "down"
}

state() { on n1 squeue -h -t all -j "$1" -o %T 2>/dev/null || true; }

wait_for() {
	local t limit=${3:-120}
	t=$(now)
	while [ "$(state "$1")" != "$2" ]; do
		awk "BEGIN { exit !($(since "$t") > $limit) }" && die "job $1 is $(state "$1") after $limit s, not $2"
		sleep 0.1
	done
	echo "job $1 $2 after $(since "$t") s"
}

demo() {
	local job t d=$LAB_DIR/shared/slurm-demo n victim
	n=$(cat "$LAB_DIR/count")
	mkdir -p "$d"
	echo "== srun on $n nodes"
	t=$(now)
	on n1 srun -N "$n" -n "$n" hostname | sort | tr '\n' ' '
	echo "after $(since "$t") s"

	echo "== the signal before the time limit (B: the batch shell alone)"
	cat >"$d/limit.sh" <<-'TEXT'
		#!/bin/bash
		# A shell acts on a signal only between commands: the work runs behind, and wait is interrupted.
		trap 'echo "USR1 after $SECONDS s"; kill $!; exit 0' USR1
		sleep 600 &
		wait $!
	TEXT
	job=$(on n1 sbatch --parsable -N 1 --time=2 --signal=B:USR1@60 -o "$d/limit.%j" "$d/limit.sh")
	wait_for "$job" COMPLETED 240
	cat "$d/limit.$job"

	echo "== a job requeues itself"
	cat >"$d/requeue.sh" <<-'TEXT'
		#!/bin/bash
		echo "restart ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
		[ "${SLURM_RESTART_COUNT:-0}" -ge 1 ] && exit 0
		scontrol requeue "$SLURM_JOB_ID"
		sleep 600
	TEXT
	job=$(on n1 sbatch --parsable --requeue --open-mode=append -N 2 -o "$d/requeue.%j" "$d/requeue.sh")
	wait_for "$job" COMPLETED 240
	cat "$d/requeue.$job"

	echo "== a node fails (SlurmdTimeout $(sed -n 's/^SlurmdTimeout=//p' "$S/etc/slurm.conf") s), the job is requeued"
	cat >"$d/fail.sh" <<-'TEXT'
		#!/bin/bash
		echo "restart ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
		[ "${SLURM_RESTART_COUNT:-0}" -ge 1 ] && exit 0
		srun sleep 600
		echo "srun returned $?"
		sleep 600
	TEXT
	# Not by -w, which would have the job wait for the node that is gone.
	job=$(on n1 sbatch --parsable --requeue --open-mode=append -N 2 -n 2 -o "$d/fail.%j" "$d/fail.sh")
	wait_for "$job" RUNNING
	sleep 2
	victim=$(on n1 squeue -h -j "$job" -o %N)
	victim=$(on n1 scontrol show hostnames "$victim" | tail -1)
	lab kill "$victim"
	t=$(now)
	while [ "$(on n1 squeue -h -t all -j "$job" -o %T)" = RUNNING ]; do sleep 0.2; done
	echo "the job is $(state "$job") $(since "$t") s after the power cut"
	wait_for "$job" COMPLETED 600
	cat "$d/fail.$job"
	repair "$victim"
}

repair() {
	local t
	lab start "$1" 2>/dev/null || true
	t=$(now)
	node_up "$1"
	while ! on n1 sinfo -h -n "$1" -o %T | grep -q idle; do sleep 0.2; done
	echo "node $1 is idle after $(since "$t") s"
}

main() {
	local command=${1:-help}
	[ $# -gt 0 ] && shift
	case $command in
	help | -h | --help) usage ;;
	up) up ;;
	down) down ;;
	run)
		local as=()
		[ "${1:-}" = -u ] && as=(-u "$2") && shift 2
		LAB_DIR=$LAB_DIR exec bash "$here/node-lab.sh" exec "${as[@]}" n1 "$@"
		;;
	fail) lab kill "$1" ;;
	repair) repair "$1" ;;
	wait) wait_for "$@" ;;
	demo) demo ;;
	status) on n1 sinfo -N -l; on n1 squeue -t all ;;
	*) usage >&2; exit 2 ;;
	esac
}

main "$@"
