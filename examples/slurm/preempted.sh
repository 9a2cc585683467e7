#!/bin/bash
# A run that makes room for more urgent ones:
#
#	sbatch preempted.sh ./solver -n 4000
#
# When another job needs the nodes, Slurm sends TERM to this script, that is to gorun, and waits
# before it takes the nodes away: for GraceTime of the partition where Slurm is set up with
# preempt_send_user_signal (scontrol show config), else for KillWait, which is 30 seconds. gorun takes
# a checkpoint, stops the ranks, and has Slurm queue the job again. The time limit is met in the same
# way. A checkpoint every ten minutes is for what comes without warning.
#SBATCH --nodes=2 --ntasks-per-node=4
#SBATCH --time=01:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue --open-mode=append

exec gorun -restart-latest -requeue -cr -ckpt-on-signal TERM -ckpt-every 10m -keep 2 "$@"
