package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// A cycle is a checkpoint at a random instant, mostly followed by kill -9 of
// everything and a restart, mostly over other transports. A lineage is a run with several of them, which must
// end with the same bits as one that nobody has disturbed.
//
// Every third cycle takes a second, incremental snapshot and restarts from
// that, every fifth kills nobody.
const (
	cyclesPerRun = 5
	logLines     = 200 // of a whole run
)

// load is a program for cycles: it writes logLines to a file that it keeps open.
type load struct {
	name  string
	ranks int
	args  func(log string) []string
}

// loads are an example that computes in the same memory for ever, and a program
// that is all new memory and garbage collection.
func loads(rng *rand.Rand, ranks int) load {
	heat := func(steps int) func(log string) []string {
		return func(log string) []string {
			return []string{filepath.Join(bin, "heat"), "-n", "320", "-steps", strconv.Itoa(steps), "-every", strconv.Itoa(steps / logLines), "-log", log}
		}
	}
	churn := func(steps int) func(log string) []string {
		return func(log string) []string {
			return []string{filepath.Join(bin, "subject"), "-steps", strconv.Itoa(steps), "-every", strconv.Itoa(steps / logLines), "-log", log, "churn"}
		}
	}
	switch {
	case ranks > 8:
		return load{"heat", ranks, heat(600)}
	case rng.IntN(3) == 0:
		return load{"churn", ranks, churn(1000)}
	}
	return load{"heat", ranks, heat(4000)}
}

// calm is what an undisturbed run leaves behind.
type calm struct {
	digest string
	log    []byte
}

// undisturbedRun runs a load without checkpoints.
func (h *house) undisturbedRun(l load) calm {
	h.t.Helper()
	log := h.dir("calm.log")
	if h.user != nil {
		log = filepath.Join(h.folder("calm"), "log")
	}
	out := h.must(append([]string{"-np", strconv.Itoa(l.ranks), "-env", "GOMAXPROCS=2"}, l.args(log)...)...)
	text, err := os.ReadFile(log)
	if err != nil {
		h.t.Fatal(err)
	}
	return calm{digest(h.t, out), text}
}

// lines counts the lines of a log.
func countLines(t testing.TB, log string) int {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// reach waits until the log of a run has so many lines; false if the run ends
// before.
func (r *run) reach(log string, lines int) bool {
	r.h.t.Helper()
	for countLines(r.h.t, log) < lines {
		select {
		case <-r.done:
			return false
		default:
			poll()
		}
	}
	return true
}

// try takes a snapshot if the run has not come to its end before.
func (r *run) try() (schema string, ok bool) {
	r.h.t.Helper()
	out, errs, code := r.h.gorun("checkpoint", r.id)
	if code == 0 {
		return string(bytes.TrimSpace([]byte(out))), true
	}
	if end := r.wait(); end != 0 {
		r.h.t.Fatalf("checkpoint: exit %d\n%s\nthe job: exit %d\n%s", code, errs, end, r.errs)
	}
	return "", false
}

// TestNativeCycles checkpoints, kills and restarts heat and churn at random
// instants. GORUN_CYCLES sets the number of cycles.
func TestNativeCycles(t *testing.T) {
	n := testenv.Number(t, "GORUN_CYCLES", cyclesPerRun)
	cycles(t, n, func(rng *rand.Rand) int { return 4 + rng.IntN(5) })
}

// TestNativeCycles64 does it with 64 ranks. GORUN_CYCLES64 sets the number of
// cycles.
func TestNativeCycles64(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 64 ranks; skipped with -short")
	}
	n := testenv.Number(t, "GORUN_CYCLES64", 1)
	cycles(t, n, func(*rand.Rand) int { return 64 })
}

// seed is random, or what the environment says.
func seed(t *testing.T, name string) uint64 {
	t.Helper()
	x := rand.Uint64()
	if s := os.Getenv(name); s != "" {
		var err error
		if x, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// cycles does n cycles, in lineages side by side.
func cycles(t *testing.T, n int, ranks func(*rand.Rand) int) {
	needNative(t)
	random := seed(t, "GORUN_CYCLE_SEED")
	t.Logf("%d cycles, GORUN_CYCLE_SEED=%d", n, random)
	c := &counter{left: n, late: func() bool { return testenv.Late(t) }}
	var want sync.Map // load and ranks -> calm
	t.Run("group", func(t *testing.T) {
		for i := range min(2, (n+cyclesPerRun-1)/cyclesPerRun) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(random, uint64(i)))
				for c.more() {
					t.Run("lineage", func(t *testing.T) { lineage(t, rng, loads(rng, ranks(rng)), c, &want) })
					if t.Failed() {
						return
					}
				}
			})
		}
	})
	t.Logf("%d cycles, %d incremental snapshots, %d cycles without a kill", c.done, c.incremental, c.calm)
	if !t.Failed() && incrementals(t) && c.done >= 3 && c.incremental == 0 {
		t.Error("no snapshot was incremental")
	}
}

// counter hands out cycles to lineages.
type counter struct {
	mu                            sync.Mutex
	left, done, incremental, calm int

	late func() bool
}

// leastCycles are had even if there is no time for more.
const leastCycles = 3

// over reports whether no further cycle begins.
func (c *counter) over() bool { return c.left == 0 || c.done >= leastCycles && c.late() }

func (c *counter) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.over()
}

// next begins a cycle, given its number, unless there were enough.
func (c *counter) next() (i int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over() {
		return 0, false
	}
	c.left--
	c.done++
	return c.done, true
}

// undo gives a cycle back that the end of the run has cut short.
func (c *counter) undo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left++
	c.done--
}

func (c *counter) note(incremental, calm bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if incremental {
		c.incremental++
	}
	if calm {
		c.calm++
	}
}

// lineage starts a load, disturbs it for some cycles and compares its end.
func lineage(t *testing.T, rng *rand.Rand, l load, c *counter, all *sync.Map) {
	h := nativeHouse(t)
	once, _ := all.LoadOrStore(fmt.Sprint(l.name, l.ranks), sync.OnceValue(func() calm { return h.undisturbedRun(l) }))
	want := once.(func() calm)()

	t.Logf("%s on %d ranks", l.name, l.ranks)
	log := filepath.Join(h.folder("work"), "log")
	flags := []string{"-env", "GOMAXPROCS=2", "-ckpt-full-every", "4", "-agents", strconv.Itoa(1 + rng.IntN(2)), "-keep", "3"}
	flags = slices.Concat(flags, carrier(t, rng), algorithms(t, rng))
	r := h.nativeRun(l.ranks, flags, l.args(log)...)
	runs := []*run{r}
	for range cyclesPerRun {
		i, ok := c.next()
		if !ok {
			break
		}
		again, ok := cycle(r, rng, i, log, c)
		if !ok {
			c.undo()
			break
		}
		if again != r {
			runs = append(runs, again)
		}
		r = again
	}
	if code := r.wait(); code != 0 {
		t.Fatalf("exit %d\n%s", code, r.errs)
	}
	for _, got := range results(runs) {
		if got != want.digest {
			t.Errorf("digest %q, undisturbed %s", got, want.digest)
		}
	}
	if got, err := os.ReadFile(log); err != nil || !bytes.Equal(got, want.log) {
		t.Errorf("the log has %d bytes in %d lines, undisturbed %d in %d, %v", len(got), bytes.Count(got, []byte("\n")), len(want.log), logLines, err)
	}
}

// results returns the digests that the runs of a lineage have printed, "" if none
// has. The last one prints none if the result was out before its snapshot, and
// an earlier one if it was killed only after the result.
func results(runs []*run) (all []string) {
	for _, r := range runs {
		for _, m := range resultLine.FindAllStringSubmatch(r.out.String(), -1) {
			all = append(all, m[1])
		}
	}
	if all == nil {
		all = []string{""}
	}
	return all
}

// cycle is one checkpoint, and most often a kill and a restart. It returns the
// run that goes on; false if the run was over too early.
func cycle(r *run, rng *rand.Rand, i int, log string, c *counter) (*run, bool) {
	h := r.h
	h.t.Helper()
	somewhat := func() bool {
		return r.reach(log, min(logLines, countLines(h.t, log)+1+rng.IntN(logLines/cyclesPerRun/2)))
	}
	if !somewhat() {
		return r, false
	}
	schema, ok := r.try()
	incremental := false
	if ok && i%3 == 0 && somewhat() {
		if schema, ok = r.try(); ok {
			incremental = len(readSchema(h.t, schema).Bases()) > 0
		}
	}
	if !ok {
		return r, false
	}
	c.note(incremental, i%5 == 0)
	if i%5 == 0 {
		return r, true
	}
	r.kill()
	return h.restart(schema, carrier(h.t, rng)...), true
}
