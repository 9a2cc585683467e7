#!/bin/bash
# A run that outlives its nodes:
#
#	sbatch node-failure.sh ./solver -n 4000
#
# Of the three nodes one stays idle. When one of the others fails, its ranks go on there, from the
# newest checkpoint: --no-kill has Slurm leave the allocation as it is. When no spare is left the job
# is queued again and goes on with other nodes.
#SBATCH --nodes=3 --ntasks-per-node=4 --no-kill
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue --open-mode=append

# With --no-kill Slurm does nothing when the node of this script fails, so the others watch it. When
# Slurm has found it down, the job is queued again.
others=$((SLURM_JOB_NUM_NODES - 1))
(srun --overlap --mpi=none --no-kill -N "$others" -n "$others" -x "$SLURMD_NODENAME" sh -c '
	until sinfo -h -n "$0" -o %T | grep -q down; do sleep 10; done
	scontrol requeue "$SLURM_JOB_ID"' "$SLURMD_NODENAME" </dev/null &)

exec gorun -restart-latest -requeue -cr -ckpt-on-signal USR1 -ckpt-every 5m -keep 2 -spares 1 -restarts 10 "$@"
