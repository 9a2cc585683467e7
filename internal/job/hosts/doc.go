// Package hosts says on which nodes a job runs and which rank goes where. It is pure: files,
// variables and commands come in as functions, CPU counts as numbers.
//
// # Where nodes come from
//
// The first source that is there is taken, and no other:
//
//	-hostfile FILE, -hosts LIST     the caller's flags: ParseFile, ParseHosts
//	SLURM_JOB_ID                    Slurm: SLURM_JOB_NODELIST, by scontrol show hostnames
//	PBS_NODEFILE                    PBS, Torque: a file, a line for each slot
//	PE_HOSTFILE                     Grid Engine: a file of "host slots queue processors"
//	LSB_MCPU_HOSTS                  LSF: "host slots host slots ..."
//	OMPI_MCA_orte_default_hostfile  a host file of Open MPI, as Kubernetes' mpi-operator sets it
//	HYDRA_HOST_FILE                 a host file of MPICH
//
// # A host file
//
//	# a comment; each line names a node
//	n1                              slots are not given: as many as the node has CPUs
//	n2 slots=4 max_slots=8          Open MPI's; max-slots, slots_max and slots-max are the same
//	me@n3:4                         MPICH's
//	[fe80::1%eth0]:2 user=me        an IPv6 address stands in brackets
//	n4 addr=10.0.0.3                the node is called at this address
//	n5                              a plain name on several lines: each line is a slot,
//	n5                              also of the other plain names of this file
//
// A list (-hosts) has the first word of such lines, separated by commas: a:2,me@b,[::1]:2.
//
// # Slots
//
// A slot is room for a rank. Slots that were given are a limit: more ranks than slots are refused,
// unless the user says -oversubscribe. Then max_slots is the limit. A node without given slots has
// one for each CPU. These only guide how ranks are spread: they are no limit, because the user has
// set none.
//
// A job without a number of ranks gets one for each slot. A node without slots then has one for
// each time that it is named (Mentioned), as with mpirun -host a,b.
//
// # Which rank goes where
//
// A policy says how many ranks each node gets (see Policy). Ranks that share a node are neighbours,
// except by "node":
//
//	a:4,b:2, -np 5    slot, socket, core:  a 0 1 2 3, b 4
//	                  node:                a 0 2 4,   b 1 3
//
// More ranks than slots: all slots are filled, then each further rank goes to the node with the
// fewest ranks for its slots, the first of several.
//
// # Losses
//
// A node without ranks is a spare, whether kept by -spares or left over. When nodes are lost,
// Replace moves their ranks to spares: whole nodes if one has room, else over several. All other
// ranks stay where they are, with their images. Where spares do not suffice free slots of the other
// nodes are used, but only with -shrink-to-fit, and again no more than their slots. Otherwise the
// error says what is missing. When a node joins later, Relieve gives it the ranks that
// -shrink-to-fit has put on others.
package hosts
