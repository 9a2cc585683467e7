#!/bin/bash
# A run that outlives its nodes:
#
#	sbatch node-failure.sh ./solver -n 4000
#
# Of the three nodes one stays idle. When one of the others fails, its ranks go on there, from the
# newest checkpoint: --no-kill has Slurm leave the allocation as it is. When no spare is left the job
# is queued again and goes on with other nodes. If the node of this script fails, Slurm does nothing
# with --no-kill: docs/slurm.md says what then.
#SBATCH --nodes=3 --ntasks-per-node=4 --no-kill
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue --open-mode=append

exec gorun -restart-latest -requeue -cr -ckpt-on-signal USR1 -ckpt-every 5m -keep 2 -spares 1 -restarts 10 "$@"
