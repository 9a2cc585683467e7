package command

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/launch/hosts"
	"github.com/gorun-mpi/gorun/internal/lease"
)

// whereFlags are the flags that say on which nodes a job runs.
type whereFlags struct {
	hosts, hostfile string
	manager         string
	spares          int
	shrink, over    bool
	lease           time.Duration
	ssh             string
}

func (w *whereFlags) flags(fs *flag.FlagSet) {
	fs.StringVar(&w.hosts, "hosts", "", "run on these `nodes`: a,b:4,user@c; a number is that of the slots, else the node's\nCPUs count; each is reached by ssh, without a password")
	fs.StringVar(&w.hostfile, "hostfile", "", "run on the nodes that a `file` lists, as Open MPI and MPICH write it")
	fs.BoolVar(&w.over, "oversubscribe", false, "a node may have more ranks than slots")
	fs.IntVar(&w.spares, "spares", 0, "keep `N` nodes without ranks, to take the place of nodes that are lost (-restarts)")
	fs.BoolVar(&w.shrink, "shrink-to-fit", false, "without a spare the ranks of a lost node go to free slots of the others (-restarts)")
	durationVar(fs, &w.lease, "lease", lease.DefaultTerms.L, "a node that gorun cannot hear is given up: its ranks end, without fail, after this\n`duration`")
	fs.StringVar(&w.manager, "manager", managers[0].name, "`what` starts gorun on other nodes: "+strings.Join(managerNames(), ", "))
	fs.StringVar(&w.ssh, "ssh", "ssh", "`command` that logs in to other nodes, with options: \"ssh -p 2222\"")
}

func managerNames() (names []string) {
	for _, m := range managers {
		names = append(names, m.name)
	}
	return names
}

// needNodes are flags that mean something only where nodes are named.
var needNodes = []string{"oversubscribe", "spares", "shrink-to-fit", "lease", "manager", "ssh"}

// apply puts the flags into the options.
func (w *whereFlags) apply(o *options, given map[string]bool) (err error) {
	switch {
	case given["hosts"] && given["hostfile"]:
		return errors.New("-hosts and -hostfile both name the nodes: give one of them")
	case given["hosts"]:
		if o.Nodes, err = hosts.ParseHosts(w.hosts); err != nil {
			return fmt.Errorf("-hosts: %w", err)
		}
	case given["hostfile"]:
		f, err := os.Open(w.hostfile)
		if err != nil {
			return fmt.Errorf("-hostfile: %w", err)
		}
		defer f.Close()
		if o.Nodes, err = hosts.ParseFile(f, w.hostfile); err != nil {
			return fmt.Errorf("-hostfile: %w", err)
		}
	default:
		for _, name := range needNodes {
			if given[name] {
				return fmt.Errorf("-%s needs nodes: name them with -hosts or -hostfile", name)
			}
		}
		return nil
	}
	switch {
	case given["agents"]:
		return errors.New("-agents is for one machine: with -hosts or -hostfile each node has one")
	case w.spares < 0:
		return fmt.Errorf("-spares %d: a number of nodes is wanted", w.spares)
	case w.lease < lease.Shortest:
		return fmt.Errorf("-lease %v: at least %v", w.lease, lease.Shortest)
	}
	o.Rules = hosts.Rules{Policy: o.Map, Oversubscribe: hosts.Oversubscribe(w.over), Spares: w.spares, Shrink: w.shrink}
	o.Lease = w.lease
	for _, m := range managers {
		if m.name == w.manager {
			o.Manager, err = m.make(w)
			return err
		}
	}
	return fmt.Errorf("-manager %s: known are %s", w.manager, strings.Join(managerNames(), ", "))
}
