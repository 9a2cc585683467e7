package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/launcher"
	"github.com/gorun-mpi/gorun/launcher/slurm"
	"github.com/gorun-mpi/gorun/launcher/ssh"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/shm"
	"github.com/gorun-mpi/gorun/rpi/tcp"
)

// The modules of this command: one line each. Transports are linked into the
// programs (mpi/modules.go); their parameters are listed here for info. Back-ends
// that image whole processes are named by the main package (cmd/gorun).

// managers start keepers on other nodes.
var managers = []manager{
	{"ssh", "logs in to each node of -hosts", func(w *whereFlags) (launcher.Manager, error) { return ssh.New(w.ssh) }},
	{"slurm", "runs a step on each node of the allocation; the default inside one", func(*whereFlags) (launcher.Manager, error) { return slurm.Manager{}, nil }},
}

// manager is one value of -manager.
type manager struct {
	name, doc string
	make      func(*whereFlags) (launcher.Manager, error)
}

// module is one line of info.
type module struct{ name, doc string }

// portable is the back-end that is linked into the programs.
var portable = module{"self", "portable: the program registers its state and goes on from a common Point (package cr)"}

// absent are back-ends that this gorun was built without, and how to have them.
var absent = []module{
	{"criu", "not linked into this gorun, which needs nothing beside itself: cr/criu/cmd/gorun-criu is one with it"},
}

// stores keep snapshots.
var stores = []module{
	{"dir", "a folder that all nodes see: DIR/<job>/<sequence>/schema.toml and one image a rank"},
	{"mem", "the memory of the nodes, with copies on others (-ckpt-mirror); it ends with the job"},
	{"node", "a folder of each node: images on the node that wrote them (-ckpt-local); the rest as in dir"},
	{"s3", "a bucket of an object store: images as objects (-ckpt-store s3://BUCKET/PREFIX); the rest as in dir"},
	{"+sealed", "any of these, encrypted with the key of a file (-ckpt-key FILE)"},
}

// parameters lists what -param can set, by transport.
var parameters = map[string]func() []rpi.Parameter{
	"rdma": rdma.Parameters,
	"shm":  shm.Parameters,
	"tcp":  tcp.Parameters,
}

// absentProviders are providers of transport rdma that this gorun is built without, and how programs have them.
var absentProviders = []module{
	{"ofi", "not linked into this gorun; a program that imports github.com/gorun-mpi/gorun/rdma/ofi has it, over libfabric"},
}

// providers tells what transport rdma can use: of each provider its devices, or why there is none.
func providers() (lines []module) {
	for _, p := range provider.All() {
		list, err := p.List()
		if err == nil && len(list) == 0 {
			err = errors.New("no device")
		}
		if err != nil {
			lines = append(lines, module{p.Name(), fmt.Sprintf("cannot be used here: %v", err)})
			continue
		}
		for _, d := range list {
			lines = append(lines, module{p.Name(), "device " + d.Name + ": " + d.Detail})
		}
	}
	for _, p := range absentProviders {
		if _, ok := provider.Lookup(p.name); !ok {
			lines = append(lines, p)
		}
	}
	return lines
}

// checkParams says what is wrong with the parameters of transports, so that not every rank has to. The launcher
// checks its own, job.* and coll.*, and has back-ends for whole processes check theirs.
func checkParams(given map[string]string) error {
	known := map[string]bool{}
	for _, list := range parameters {
		for _, p := range list() {
			known[p.Name] = true
		}
	}
	for _, i := range whole.All() {
		if t, ok := i.(whole.Tunable); ok {
			for _, p := range t.Parameters() {
				known[p.Name] = true
			}
		}
	}
	for name := range given {
		if of, _, _ := strings.Cut(name, "."); !known[name] && of != "coll" && of != "job" {
			return fmt.Errorf("-param %s: no such parameter, 'gorun info' lists them", name)
		}
	}
	if err := errors.Join(rdma.CheckParams(given), shm.CheckParams(given), tcp.CheckParams(given)); err != nil {
		return fmt.Errorf("-param: %w", err)
	}
	return nil
}

// transports are the names that -rpi knows.
func transports() []string {
	var names []string
	for _, n := range rpi.Names() {
		if n != "mem" { // goroutines of one process, for tests
			names = append(names, n)
		}
	}
	return names
}
