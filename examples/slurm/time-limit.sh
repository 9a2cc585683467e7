#!/bin/bash
# A run that is longer than its time limit:
#
#	sbatch time-limit.sh ./solver -n 4000
#
# Two minutes before the limit Slurm sends USR1 to this script, that is to gorun, as exec has put it
# in the script's place. gorun takes a checkpoint, stops the ranks, and has Slurm queue the job again.
# In the next time slot the same line goes on from that checkpoint. This repeats until the program
# has finished.
#SBATCH --nodes=2 --ntasks-per-node=4
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue --open-mode=append

exec gorun -restart-latest -requeue -cr -ckpt-on-signal USR1 "$@"
