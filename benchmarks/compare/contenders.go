package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/bench"
	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
)

//go:embed c
var sources embed.FS

// ours is the name of the first contender.
const ours = "gorun"

// contender takes part in the race.
type contender struct {
	name    string
	measure func(ctx context.Context, u unit) ([]figure, error) // with an error, what was measured before it
	failed  map[id]int                                          // how often it has
}

// library runs programs on several ranks.
type library struct {
	name   string
	mpicc  string              // the command that compiles for it; "" is gorun itself
	launch map[string][]string // by transport, how programs are started, before the number of ranks
	env    map[string][]string
	limit  time.Duration
	hosts  []string // what makes it run on the nodes of -hosts
	// program returns a unit's program with its arguments.
	program func(u unit) []string
	digests map[unitKey]string // of the programs' results, by all libraries
	clean   func() error       // ends what a program that was ended has left; nil: nothing
}

type unitKey struct {
	test        string
	edge, count int
}

// lamLinks makes LAM's programs find their functions before they begin. MPI_Init passes the kernel an address
// from an unused place on its stack, for no bytes, and the kernel looks at it (EFAULT). A search for a function
// leaves values there that make 2 starts of 3 fail.
const lamLinks = "LD_BIND_NOW=1"

// peers are other libraries, by the names of their commands in Debian. Where
// they do not choose the transport that is asked for by themselves, a flag does.
var peers = []library{
	{name: "openmpi", mpicc: "mpicc.openmpi", launch: map[string][]string{
		"shm": {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"},
		"tcp": {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "tcp,self", "--mca", "pml", "ob1"},
	}},
	{name: "mpich", mpicc: "mpicc.mpich", launch: map[string][]string{"shm": {"mpirun.mpich"}, "tcp": {"mpirun.mpich"}},
		env: map[string][]string{"tcp": {"UCX_TLS=tcp,self"}}},
	{name: "lam", mpicc: "mpicc.lam", launch: map[string][]string{
		"shm": {"mpirun.lam", "-x", lamLinks, "-ssi", "rpi", "usysv"},
		"tcp": {"mpirun.lam", "-x", lamLinks, "-ssi", "rpi", "tcp"},
	}},
}

// assemble builds the programs of all libraries that are there, gorun first.
// closing ends what was started for them.
func assemble(ctx context.Context, world *bench.World, o *options, w io.Writer) (all []*contender, closing func() error, err error) {
	closing = func() error { return nil }
	digests := map[unitKey]string{}
	us, err := gorun(world, o)
	if err != nil {
		return nil, closing, err
	}
	us.digests = digests
	if us.hosts, err = onNodes(ours, o.hosts); err != nil {
		return nil, closing, err
	}
	all = append(all, newContender(us.name, us.measure))
	for _, p := range peers {
		if !slices.Contains(o.peers, p.name) {
			continue
		}
		if why := missing(p.mpicc, p.launch["shm"][0]); why != "" {
			fmt.Fprintf(w, "%s takes no part: %s\n", p.name, why)
			continue
		}
		dir := world.Bin
		if p.name == "lam" {
			l, err := bootLAM(ctx, &p)
			if err != nil {
				return nil, closing, err
			}
			dir, closing, p.clean = l.dir, l.halt, l.clean
		}
		exe, err := p.compile(ctx, dir)
		if err != nil {
			return nil, closing, err
		}
		if p.hosts, err = onNodes(p.name, o.hosts); err != nil {
			return nil, closing, err
		}
		p.program, p.limit, p.digests = peerProgram(exe, o), o.limit, digests
		all = append(all, newContender(p.name, p.measure))
	}
	return append(all, netpipes(world, o, w)...), closing, nil
}

// onNodes returns the flags that make a library put its ranks on these nodes in turn. Open MPI must not bind: nodes of
// a lab share their processors, and each of them would take the first.
func onNodes(library, nodes string) ([]string, error) {
	if nodes == "" {
		return nil, nil
	}
	switch library {
	case ours:
		return []string{"-hosts", nodes, "-map", "node"}, nil
	case "openmpi":
		return []string{"--host", nodes, "--map-by", "node", "--bind-to", "none"}, nil
	case "mpich":
		return []string{"-hosts", nodes, "-ppn", "1"}, nil
	}
	return nil, fmt.Errorf("-hosts: %s cannot run on several nodes here; leave it out with -peers", library)
}

func newContender(name string, measure func(ctx context.Context, u unit) ([]figure, error)) *contender {
	return &contender{name: name, measure: measure, failed: map[id]int{}}
}

// missing says which of the tools is not installed; "": none.
func missing(tools ...string) string {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not installed"
		}
	}
	return ""
}

// compile builds c/*.c for the library.
func (l *library) compile(ctx context.Context, dir string) (exe string, err error) {
	src := filepath.Join(dir, "c-"+l.name)
	if err := os.CopyFS(src, sources); err != nil {
		return "", err
	}
	files, err := fs.Glob(sources, "c/*.c")
	if err != nil {
		return "", err
	}
	exe = filepath.Join(dir, "peer."+l.name)
	args := []string{l.mpicc, "-O2", "-ffp-contract=off", "-o", exe}
	for _, f := range files {
		args = append(args, filepath.Join(src, f))
	}
	_, err = bench.Output(ctx, time.Minute, nil, append(args, "-lm")...)
	return exe, err
}

// peerProgram is the command line of c/main.c.
func peerProgram(exe string, o *options) func(u unit) []string {
	return func(u unit) []string {
		switch u.test {
		case "start":
			return []string{exe, "empty"}
		case "heat", "solver", "stencil":
			return []string{exe, u.test, strconv.Itoa(u.edge), strconv.Itoa(u.count)}
		case "cg", "is", "mg":
			return []string{exe, u.test, u.class()}
		}
		args := []string{exe, u.test, fmt.Sprint(u.time.Seconds()), strconv.Itoa(o.batches)}
		if u.test == "collectives" {
			args[1] = o.ops
		}
		return append(args, texts(u.sizes)...)
	}
}

func texts(numbers []int) []string {
	var t []string
	for _, n := range numbers {
		t = append(t, strconv.Itoa(n))
	}
	return t
}

// class is that of a NAS benchmark.
func (u unit) class() string { return string(rune(u.edge)) }

// gorun builds our own programs.
func gorun(world *bench.World, o *options) (*library, error) {
	exe := map[string]string{}
	for name, pkg := range map[string]string{"netpipe": "benchmarks/netpipe", "collectives": "benchmarks/collectives",
		"start": "benchmarks/compare/empty", "heat": "examples/heat", "solver": "examples/solver",
		"cg": "examples/apps/npb/cg", "is": "examples/apps/npb/is", "mg": "examples/apps/npb/mg",
		"stencil": "examples/apps/prk/stencil"} {
		var err error
		if exe[name], err = bench.Build(world.Bin, name, pkg); err != nil {
			return nil, err
		}
	}
	return &library{
		name: ours,
		launch: map[string][]string{
			"shm": {world.Gorun, "-cr", "-rpi", o.rpi},
			"tcp": {world.Gorun, "-cr", "-rpi", "tcp"},
		},
		limit: 5 * o.limit,
		program: func(u unit) []string {
			sizes := []string{"-csv", "-time", u.time.String(), "-batches", strconv.Itoa(o.batches), "-sizes", strings.Join(texts(u.sizes), ",")}
			switch u.test {
			case "start":
				return []string{exe["start"]}
			case "heat":
				return []string{exe["heat"], "-times", "-n", strconv.Itoa(u.edge), "-steps", strconv.Itoa(u.count)}
			case "solver":
				return []string{exe["solver"], "-times", "-poisson", strconv.Itoa(u.edge), "-tol", "0", "-iters", strconv.Itoa(u.count)}
			case "stencil":
				return []string{exe["stencil"], "-times", "-n", strconv.Itoa(u.edge), "-iters", strconv.Itoa(u.count)}
			case "cg", "is", "mg":
				return []string{exe[u.test], "-times", u.class()}
			case "collectives":
				return append([]string{exe["collectives"], "-ops", o.ops}, sizes...)
			case "pingpong":
				return append([]string{exe["netpipe"]}, sizes...)
			}
			return append([]string{exe["netpipe"], "-" + u.test}, sizes...)
		},
	}, nil
}

// measure runs a unit's program and returns what it measured.
func (l *library) measure(ctx context.Context, u unit) ([]figure, error) {
	figures, err := l.run(ctx, u)
	if err != nil && l.clean != nil {
		err = errors.Join(err, l.clean())
	}
	return figures, err
}

func (l *library) run(ctx context.Context, u unit) ([]figure, error) {
	args := slices.Concat(l.launch[u.transport], l.hosts, []string{"-np", strconv.Itoa(u.ranks)}, l.program(u))
	if u.test == "start" {
		return l.start(ctx, u, args)
	}
	out, err := bench.Output(ctx, l.limit, l.env[u.transport], args...)
	if slices.Contains(programs, u.test) {
		if err != nil {
			return nil, err
		}
		return l.times(u, out)
	}
	lines, bad := bench.ReadLines(out)
	if err == nil {
		err = bad
	}
	var figures []figure
	for _, m := range lines {
		if !(m.Seconds > 0) {
			return figures, fmt.Errorf("%s of %d bytes takes %g s", m.Mode, m.Bytes, m.Seconds)
		}
		mode := strings.TrimPrefix(m.Mode, "pingpong-") // dirty of netpipe
		figures = append(figures, figure{key{u.transport, mode, u.ranks, m.Bytes}, m.Seconds})
	}
	return figures, err
}

// start times the empty program, as often as the unit says.
func (l *library) start(ctx context.Context, u unit, args []string) ([]figure, error) {
	var times []float64
	for range u.count {
		began := time.Now()
		if _, err := bench.Output(ctx, l.limit, l.env[u.transport], args...); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began).Seconds())
	}
	return []figure{{key{u.transport, "start", u.ranks, 0}, stats.Median(times)}}, nil
}

// times reads the output of a program, in C or in Go. The results must be
// the same to the last bit that is printed: then the algorithms are. Those of NAS benchmarks must be the known ones.
func (l *library) times(u unit, out string) ([]figure, error) {
	var figures []figure
	add := func(what string, seconds float64) {
		figures = append(figures, figure{key{u.transport, u.test + " " + what, u.ranks, 0}, seconds / float64(u.count)})
	}
	digest := ""
	for line := range strings.Lines(out) {
		var what string
		var seconds float64
		if _, err := fmt.Sscanf(line, "time %s %f", &what, &seconds); err == nil {
			add(what, seconds)
		}
		if strings.HasPrefix(line, "result ") || strings.HasPrefix(line, "Verification: ") {
			digest += line
		}
	}
	if len(figures) != 2 || digest == "" {
		return nil, fmt.Errorf("%s prints %q", u.test, out)
	}
	k := unitKey{u.test, u.edge, u.count}
	if first, ok := l.digests[k]; ok && first != digest {
		return nil, errors.New("another result than " + ours + "'s: " + digest + "not " + first)
	}
	l.digests[k] = digest
	return figures, nil
}
