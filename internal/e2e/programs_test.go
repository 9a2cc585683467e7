package e2e

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// program is how a program of examples is run here: with a problem that is small, and yet takes long enough to be checkpointed on the way.
type program struct {
	args   string
	native bool // names no state, or not all: there are only images of whole processes
	powers bool // takes a power of two of ranks alone, and says so
}

// programs are all that speak MPI, by their folders.
var programs = map[string]program{
	"floyd":              {args: "-n 800"},
	"heat":               {args: "-n 512 -steps 3000", native: true},
	"heat/rows":          {args: "-n 512 -steps 2000"},
	"kmeans":             {},
	"life":               {args: "-n 512 -moves 200"},
	"masterworker":       {args: "-n 2500000"},
	"nbody":              {},
	"pi":                 {args: "-n 300000000"},
	"ring":               {args: "-laps 300 -slow 2ms"},
	"samplesort":         {args: "-n 500000 -batches 10"},
	"shallowwater":       {},
	"solver":             {args: "-poisson 20 -iters 1000 -tol 0"},
	"spmv":               {args: "-steps 2000"},
	"stencil":            {args: "-policy none -steps 98", native: true},
	"summa":              {args: "-n 1000"},
	"waves":              {},
	"apps/bfs":           {args: "-scale 11"},
	"apps/cloverleaf":    {},
	"apps/hpcg":          {args: "-iters 100"},
	"apps/lulesh":        {args: "-n 15"},
	"apps/mesh":          {args: "-n 150"},
	"apps/minimd":        {args: "-n 8"},
	"apps/npb/bt":        {args: "-slow 5ms S"},
	"apps/npb/cg":        {args: "W"},
	"apps/npb/ep":        {args: "W"},
	"apps/npb/ft":        {args: "W", powers: true},
	"apps/npb/ftdevices": {args: "W", powers: true},
	"apps/npb/is":        {args: "A"},
	"apps/npb/lu":        {args: "-slow 10ms S"},
	"apps/npb/mg":        {args: "W", powers: true},
	"apps/npb/mgdevices": {args: "W", powers: true},
	"apps/npb/sp":        {args: "-slow 5ms S"},
	"apps/prk/amr":       {args: "-n 1000 -edge 200"},
	"apps/prk/dgemm":     {},
	"apps/prk/stencil":   {args: "-iters 100"},
	"apps/prk/synchp2p":  {args: "-iters 100"},
	"apps/prk/transpose": {args: "-n 1000 -iters 100"},
	"apps/sweep":         {args: "-iters 50"},
	"apps/tealeaf":       {},
}

// TestPrograms runs every program of examples on 1, 2, 3 and 4 ranks. Then it checkpoints it at random moments, in images of either
// kind, kills a rank, and lets it go on, by itself or by hand, mostly over another transport: what it says must be what it says undisturbed.
// GORUN_PROGRAMS sets how often each is killed with each kind of images. Usually one program on 4 ranks is tried, chosen at random.
func TestPrograms(t *testing.T) {
	names := inExamples(t)
	if known := slices.Sorted(maps.Keys(programs)); !slices.Equal(names, known) {
		t.Fatalf("the programs in examples are\n%q, and the table here has\n%q", names, known)
	}
	random, kills := seed(t, "GORUN_PROGRAM_SEED"), testenv.Number(t, "GORUN_PROGRAMS", 0)
	t.Logf("GORUN_PROGRAM_SEED=%d", random)
	chosen := rand.New(rand.NewPCG(random, 0)).IntN(len(names))
	t.Run("group", func(t *testing.T) {
		for i, name := range names {
			if kills == 0 && i != chosen {
				continue
			}
			t.Run(strings.ReplaceAll(name, "/", "."), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(random, uint64(i+1)))
				if kills == 0 {
					programs[name].try(t, name, []int{4}, 1, rng)
				} else {
					programs[name].try(t, name, []int{1, 2, 3, 4}, kills, rng)
				}
			})
		}
	})
}

// inExamples lists the folders of examples with a program that speaks MPI.
func inExamples(t *testing.T) (names []string) {
	const root = "../../examples"
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil || f.Name.Name != "main" {
			return err
		}
		for _, i := range f.Imports {
			if i.Path.Value == strconv.Quote(modulePath+"mpi") {
				name, err := filepath.Rel(root, filepath.Dir(path))
				names = append(names, name)
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// try runs a program undisturbed on each number of ranks, and as often with a kill on one of these.
func (p program) try(t *testing.T, name string, sizes []int, kills int, rng *rand.Rand) {
	dir := filepath.Join(bin, "programs", strings.ReplaceAll(name, "/", "."))
	if err := build(dir, os.Environ(), name); err != nil {
		t.Fatal(err)
	}
	command := append([]string{filepath.Join(dir, filepath.Base(name))}, strings.Fields(p.args)...)
	calm := map[int][]string{}
	for _, np := range sizes {
		h := newHouse(t)
		args := append([]string{"-np", strconv.Itoa(np)}, command...)
		if p.powers && np&(np-1) != 0 {
			if _, errs, code := h.gorun(args...); code == 0 || !strings.Contains(errs, "power of two") {
				t.Errorf("%d ranks: exit %d\n%s", np, code, errs)
			}
			continue
		}
		start := time.Now()
		calm[np] = said(h.must(args...))
		t.Logf("%d ranks: %v: %q", np, time.Since(start).Round(time.Millisecond), calm[np])
	}
	kinds := []string{"native", "self"}
	if p.native {
		kinds = kinds[:1]
	}
	for range kills {
		for _, kind := range kinds {
			t.Run(kind, func(t *testing.T) {
				house := newHouse
				if kind == "native" {
					house = nativeHouse
				}
				sizes := slices.Sorted(maps.Keys(calm))
				np := sizes[rng.IntN(len(sizes))]
				if got := disturbed(house(t), rng, kind, np, command); !slices.Equal(said(got), calm[np]) {
					t.Errorf("%d ranks that were disturbed say\n%q, undisturbed\n%q", np, said(got), calm[np])
				}
			})
		}
	}
}

// timed matches lines that are never the same again.
var timed = regexp.MustCompile(`Time in seconds|Mop/s`)

// said returns the different lines that a program has printed, without times. A line may have been printed before the snapshot and
// again by the life that goes on from it.
func said(out string) []string {
	lines := slices.DeleteFunc(strings.Split(out, "\n"), timed.MatchString)
	slices.Sort(lines)
	return slices.Compact(lines)
}

// disturbed runs a program with checkpoints at random intervals, kills a rank after one of them, and lets the program go on from the
// newest. It returns what both lives have printed. A program that was over before is run again, with checkpoints more often.
func disturbed(h *house, rng *rand.Rand, kind string, np int, command []string) string {
	h.t.Helper()
	for every := time.Duration(30+rng.IntN(170)) * time.Millisecond; every > time.Millisecond; every /= 2 {
		if out, ok := once(h, rng, every, kind, np, command); ok {
			return out
		}
	}
	h.t.Fatalf("%v is over before it can be killed after a checkpoint: give it more to do", command)
	return ""
}

// once is one run of disturbed; false if it was over before the kill.
func once(h *house, rng *rand.Rand, every time.Duration, kind string, np int, command []string) (string, bool) {
	h.t.Helper()
	after, alone, file := 1+rng.IntN(3), rng.IntN(2) == 0, h.nextFile()
	h.t.Logf("np=%d, -ckpt-every %v, kill after checkpoint %d, alone=%v", np, every, after, alone)
	args := []string{"-np", strconv.Itoa(np), "-cr=" + kind, "-v", "-ckpt-every", every.String(), "-keep", "2", "-jobid-file", file}
	if alone {
		args = append(args, "-restarts", "1")
	}
	p := h.start(slices.Concat(args, carrier(h.t, rng), command)...)
	id := jobID(h.t, p, file)
	agents, ranks := p.family()
	if p.errs.wait(": committed", after) {
		syscall.Kill(ranks[rng.IntN(len(ranks))], syscall.SIGKILL) // it may have ended by itself
	}
	code := p.wait()
	gone(h.t, append(agents, ranks...)...)
	h.clean()
	again := strings.Contains(p.errs.String(), "restarting from snapshot")
	switch {
	case code == 0:
		return p.out.String(), again
	case alone || code != 128+int(syscall.SIGKILL):
		h.t.Fatalf("exit %d\n%s", code, p.errs)
	}
	return p.out.String() + h.goOn(id, append(carrier(h.t, rng), "-ckpt-every", "1h")...), true // in peace
}
