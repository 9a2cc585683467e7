// Package slurm starts keepers inside an allocation of Slurm, each by a step of its own:
//
//	srun --overlap -N1 -n1 -w NODE --mpi=none --cpu-bind=none --kill-on-bad-exit=0 --no-kill --wait=0 -u \
//	    /bin/sh -c SCRIPT gorun PATH DIGEST
//
// One step for each node, so that a node may fail and the steps of the others go on. What the options
// are for:
//
//	--overlap             beside other steps of the job; else srun waits for their ends
//	-n1                   SLURM_NTASKS of the job would count instead
//	--mpi=none            no PMI: gorun wires ranks up itself
//	--cpu-bind=none       ranks may use all CPUs that the job has there, and -bind decides
//	--kill-on-bad-exit=0, --no-kill, --wait=0
//	                      the end of one task, or a node, ends no other
//	-u                    output is passed on at once: the keeper's first word has no end of buffer
//
// The script is that of launcher.Remote: gorun need not be on the nodes. No ssh and no key is
// needed. The ticket goes over srun's standard input, which Slurm carries within its own,
// authenticated connections; Slurm does not encrypt them (see its TLS plugins), so anyone who can
// read the network between the nodes could read it.
package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/gorun-mpi/gorun/launcher"
)

// Manager starts keepers by srun.
type Manager struct{}

// Name returns "slurm".
func (Manager) Name() string { return "slurm" }

// Start runs a step on a node of the allocation.
func (Manager) Start(ctx context.Context, n launcher.Node, ticket []byte) (launcher.Process, error) {
	if n.Name == "" || strings.HasPrefix(n.Name, "-") || strings.ContainsAny(n.Name, ", []") {
		return nil, fmt.Errorf("%q cannot be the name of a node", n.Name)
	}
	if n.User != "" {
		return nil, fmt.Errorf("node %s: Slurm starts gorun as yourself, not as %s; -manager ssh logs in", n.Name, n.User)
	}
	p, err := launcher.Remote(ctx, func(script string, args ...string) (launcher.Process, error) {
		return launcher.Exec(ctx, step(n.Name, script, args...), ticket)
	}, func(script string, args ...string) (*exec.Cmd, error) { return step(n.Name, script, args...), nil })
	if err != nil {
		return nil, explain(n.Name, err)
	}
	return p, nil
}

// step is the command that runs a script on a node.
func step(node, script string, args ...string) *exec.Cmd {
	cmd := exec.Command("srun", append([]string{
		"--overlap", "-N1", "-n1", "-w", node, "--mpi=none", "--cpu-bind=none", "--kill-on-bad-exit=0", "--no-kill", "--wait=0", "-u",
		"/bin/sh", "-c", script, "gorun",
	}, args...)...)
	cmd.Env = environ()
	return cmd
}

// ofTheJob are variables by which sbatch hands options for the ranks on to srun, which does not start
// ranks here: they would bind the keeper to fewer CPUs than the job has, or contradict the options.
var ofTheJob = []string{
	"SLURM_CPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_CORE",
	"SLURM_DISTRIBUTION", "SLURM_ARBITRARY_NODELIST", "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_HINT", "SLURM_THREADS_PER_CORE",
	"SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_OPEN_MODE", "SLURM_LABELIO", "SLURM_TIMELIMIT",
	"SLURM_STDINMODE", "SLURM_STDOUTMODE", "SLURM_STDERRMODE", "SLURM_MULTI_PROG",
}

// environ is this process's environment without them.
func environ() []string {
	var env []string
next:
	for _, kv := range os.Environ() {
		for _, name := range ofTheJob {
			if strings.HasPrefix(kv, name+"=") {
				continue next
			}
		}
		env = append(env, kv)
	}
	return env
}

// refusals are what srun says, and what to do about it. The first that fits counts.
var refusals = []struct{ says, text string }{
	{"Unable to confirm allocation", "the allocation is over, or SLURM_JOB_ID names a job of others: unset SLURM_JOB_ID to run without Slurm"},
	{"Invalid job id", "the allocation is over, or SLURM_JOB_ID names a job of others: unset SLURM_JOB_ID to run without Slurm"},
	{"Requested node configuration is not available", "the allocation does not have that node (scontrol show hostnames)"},
	{"node list is not a subset", "the allocation does not have that node (scontrol show hostnames)"},
	{"Invalid node name", "the allocation does not have that node (scontrol show hostnames)"},
	{"Node failure", "it has failed"},
	{"not responding", "it does not answer: is it up (sinfo -R)?"},
	{"already completing or completed", "the allocation is over: its time limit, or scancel"},
	{"Unable to contact slurm controller", "Slurm's controller does not answer (scontrol ping)"},
	{"temporarily disabled", "Slurm has not begun the step: other steps that were started without --overlap have the node's CPUs or memory"},
	{"temporarily unable to create job step", "Slurm has not begun the step: other steps that were started without --overlap have the node's CPUs or memory"},
}

// explain says what the user can do about a step that was not started.
func explain(node string, err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("srun is not in PATH here, though SLURM_JOB_ID is set: have Slurm's bin folder there, or give -manager ssh")
	}
	var failed *launcher.StartError
	if errors.As(err, &failed) {
		for _, r := range refusals {
			if strings.Contains(failed.Said, r.says) {
				return fmt.Errorf("%s (srun: %s)", r.text, failed.Said)
			}
		}
	}
	return fmt.Errorf("srun -w %s: %w", node, err)
}
