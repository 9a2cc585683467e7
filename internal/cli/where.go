package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/protocol/lease"
	"github.com/gorun-mpi/gorun/launcher/kube"
)

// whereFlags are the flags that say on which nodes a job runs.
type whereFlags struct {
	hosts, hostfile string
	manager         string
	spares          int
	shrink, over    bool
	lease           time.Duration
	ssh             string
	pod             *kube.Pod // this process is the head of a Kubernetes Job
	nodes           []hosts.Node
	found           bool // nodes are known
	fewer           bool // spares are those of a former run, which may have had more nodes
	mentions        bool // without -np a node without slots has one for each time that it is named
}

func (w *whereFlags) flags(fs *flag.FlagSet) {
	fs.StringVar(&w.hosts, "hosts", "", "run on these `nodes`: a,b:4,user@c; a number is that of the slots, else the node's\nCPUs count (without -np: 1); each is reached by ssh, without a password\n(default: the nodes of the batch job that gorun runs in, if there is one)")
	fs.StringVar(&w.hostfile, "hostfile", "", "run on the nodes that a `file` lists, as Open MPI and MPICH write it")
	fs.BoolVar(&w.over, "oversubscribe", false, "a node may have more ranks than slots")
	fs.IntVar(&w.spares, "spares", 0, "keep `N` nodes without ranks, to take the place of nodes that are lost (-restarts)")
	fs.BoolVar(&w.shrink, "shrink-to-fit", false, "without a spare the ranks of a lost node go to free slots of the others (-restarts)")
	durationVar(fs, &w.lease, "lease", lease.DefaultTerms.L, "a node that gorun cannot hear is given up: its ranks end, without fail, after this\n`duration`")
	fs.StringVar(&w.manager, "manager", "", "`what` starts gorun on other nodes: "+strings.Join(managerNames(), ", ")+" (default slurm inside an\nallocation of Slurm, else ssh); local: nothing does, the job is on this machine alone\nalso where a batch system names nodes")
	fs.StringVar(&w.ssh, "ssh", "ssh", "`command` that logs in to other nodes, with options: \"ssh -p 2222\"")
}

func managerNames() (names []string) {
	for _, m := range managers {
		names = append(names, m.name)
	}
	return append(names, localOnly)
}

// localOnly is the value of -manager that makes gorun pass over what a batch system says.
const localOnly = "local"

// needNodes are flags that mean something only where nodes are named.
var needNodes = append(slices.Clone(nodesFlags), "ssh", "manager")

// find finds the nodes that flags or a batch system name. Without any the job is on this machine alone.
func (w *whereFlags) find(given map[string]bool) (nodes []hosts.Node, err error) {
	if w.found {
		return w.nodes, nil
	}
	if w.pod == nil {
		if w.pod, err = kube.FromEnv(os.Getenv); err != nil {
			return nil, err
		}
		forget()
	}
	if w.manager != "" && !contains(managerNames(), w.manager) {
		return nil, fmt.Errorf("-manager %s: known are %s", w.manager, strings.Join(managerNames(), ", "))
	}
	switch {
	case w.pod != nil:
		for _, name := range []string{"hosts", "hostfile", "manager", "ssh"} {
			if given[name] {
				return nil, fmt.Errorf("-%s: GORUN_HEAD is set, so the nodes are the pods of a Kubernetes Job; unset it, or leave the flag out", name)
			}
		}
		nodes = w.pod.Hosts()
	case w.manager == "slurm" && os.Getenv("SLURM_JOB_ID") == "":
		return nil, errors.New("-manager slurm: SLURM_JOB_ID is not set, so this is no allocation of Slurm: run gorun by salloc or sbatch, or leave the flag out (with -hosts gorun logs in by ssh)")
	case w.manager == localOnly && (given["hosts"] || given["hostfile"]):
		return nil, errors.New("-manager local is for this machine alone: leave out -hosts and -hostfile")
	case given["hosts"] && given["hostfile"]:
		return nil, errors.New("-hosts and -hostfile both name the nodes: give one of them")
	case given["hosts"]:
		if nodes, err = hosts.ParseHosts(w.hosts); err != nil {
			return nil, fmt.Errorf("-hosts: %w", err)
		}
	case given["hostfile"]:
		f, err := os.Open(w.hostfile)
		if err != nil {
			return nil, fmt.Errorf("-hostfile: %w", err)
		}
		defer f.Close()
		if nodes, err = hosts.ParseFile(f, w.hostfile); err != nil {
			return nil, fmt.Errorf("-hostfile: %w", err)
		}
	case w.manager != localOnly:
		if nodes, err = allocated(); err != nil {
			return nil, err
		}
	}
	w.nodes, w.found = nodes, true
	return nodes, nil
}

// again are the flags by which a restart finds the same nodes, and what else it does not take from the snapshot.
func (w *whereFlags) again(fs *flag.FlagSet) (flags []string, err error) {
	fs.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "hosts", "manager", "ssh", "migrate-on":
			flags = append(flags, asGiven(f)...)
		case "hostfile":
			var path string
			path, err = filepath.Abs(w.hostfile)
			flags = append(flags, "-hostfile", path)
		}
	})
	return flags, err
}

// apply puts the flags, or what a batch system says, into the options.
func (w *whereFlags) apply(o *options, fs *flag.FlagSet) (err error) {
	given := set(fs)
	if o.Nodes, err = w.find(given); err != nil {
		return err
	}
	again, err := w.again(fs)
	if err != nil {
		return err
	}
	o.Where = typed(again)
	if given["hosts"] {
		o.Hosts = w.hosts
	}
	if len(o.Nodes) == 0 {
		for _, name := range needNodes {
			if given[name] && !(name == "manager" && w.manager == localOnly) {
				return fmt.Errorf("-%s needs nodes: name them with -hosts or -hostfile, or run gorun in a batch job", name)
			}
		}
		return nil
	}
	switch {
	case given["agents"]:
		return errors.New("-agents is for one machine: where nodes are named each has one (-manager local is for this machine alone)")
	case w.spares < 0:
		return fmt.Errorf("-spares %d: a number of nodes is wanted", w.spares)
	case w.lease < lease.Shortest:
		return fmt.Errorf("-lease %v: at least %v", w.lease, lease.Shortest)
	}
	if w.mentions && !given["np"] && !given["n"] {
		o.Nodes = hosts.Mentioned(o.Nodes)
	}
	o.Rules = hosts.Rules{Policy: o.Map, Oversubscribe: hosts.Oversubscribe(w.over), Spares: w.spares, FewerSpares: w.fewer, Shrink: w.shrink}
	o.Lease = w.lease
	if !given["np"] && !given["n"] {
		o.NP = rankForEachSlot(o.Nodes, w.spares)
	}
	if w.pod != nil {
		o.Manager = kube.Manager{Pod: w.pod}
		return nil
	}
	name := w.manager
	if name == "" {
		name = "ssh"
		if os.Getenv("SLURM_JOB_ID") != "" {
			name = "slurm"
		}
	}
	for _, m := range managers {
		if m.name == name {
			o.Manager, err = m.make(w)
		}
	}
	return err
}

// rankForEachSlot is how many ranks a job has that does not say it: as many as slots of nodes that are no spares.
// Slurm may have given more slots than tasks.
func rankForEachSlot(nodes []hosts.Node, spares int) int {
	np := hosts.DefaultNP(nodes[:max(len(nodes)-spares, 0)])
	if tasks, err := strconv.Atoi(os.Getenv("SLURM_NTASKS")); err == nil && os.Getenv("SLURM_JOB_ID") != "" {
		np = min(np, tasks)
	}
	return max(np, 1)
}

// allocated returns the nodes that a batch system has given to this process; none if there is no such.
func allocated() ([]hosts.Node, error) {
	nodes, source, err := hosts.FromEnv(os.Getenv, os.ReadFile, func(name string, args ...string) ([]byte, error) {
		cmd := exec.Command(name, args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil && said.Len() > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
		}
		return out, err
	})
	if err != nil {
		return nil, fmt.Errorf("%w (-manager local is for this machine alone)", err)
	}
	for i := range nodes {
		// Slurm may call a node by another name than it has itself.
		if source == hosts.SourceSlurm && nodes[i].Name == os.Getenv("SLURMD_NODENAME") {
			nodes[i].Addr = "127.0.0.1"
		}
	}
	return nodes, nil
}

// keepsPod runs the keeper of a pod of a Kubernetes Job, if this is one and not the head's. The
// command line is that of the head.
func keepsPod(std stdio) (status int, yes bool) {
	pod, err := kube.FromEnv(os.Getenv)
	switch {
	case err != nil:
		return usage(std, "%v", err), true
	case pod == nil || pod.Index == 0:
		return 0, false
	}
	return pod.Keep(std.err), true
}

// forget keeps from the ranks what made this process the head of a Job: the Secret, and that there
// is one, so that a rank may start jobs of its own.
func forget() {
	for _, name := range []string{"GORUN_TOKEN", "GORUN_TOKEN_FILE", "GORUN_HEAD"} {
		os.Unsetenv(name)
	}
}
