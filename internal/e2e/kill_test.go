package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// victim is what is killed at random: a run of about half a second, which is
// checkpointed often, in the steps that -v tells on standard error.
type victim struct {
	cr      string
	program []string
	phases  []string
	house   func(testing.TB) *house
}

var selfVictim = victim{
	cr:      "-cr=self",
	program: []string{"solver", "-poisson", "10", "-iters", "120", "-tol", "0", "-slow", "3ms"},
	phases:  []string{"points", "closing", "draining", "capturing", "writing", "committing", "committed"},
	house:   func(t testing.TB) *house { return newHouse(t) },
}

// TestKill kills a random process at a random step of a random checkpoint. The
// newest committed snapshot must verify and restart to the bit-identical
// result, by itself with -restarts, and nothing may be left behind.
func TestKill(t *testing.T) {
	n := 6
	if testing.Short() {
		n = 2
	}
	killMany(t, &selfVictim, testenv.Number(t, "GORUN_KILLS", n))
}

// leastKills are had even if there is no time for more.
const leastKills = 6

func killMany(t *testing.T, v *victim, n int) {
	random := seed(t, "GORUN_KILL_SEED")
	t.Logf("%d kills, GORUN_KILL_SEED=%d", n, random)
	var want sync.Map // np -> digest of the undisturbed run
	var had atomic.Int64
	t.Run("group", func(t *testing.T) {
		for i := range n {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				if had.Load() >= leastKills && testenv.Late(t) {
					return
				}
				had.Add(1)
				v.killOnce(t, rand.New(rand.NewPCG(random, uint64(i))), &want)
			})
		}
	})
	t.Logf("%d kills were had", had.Load())
}

// command is the program with its full path.
func (v *victim) command() []string {
	return append([]string{filepath.Join(bin, v.program[0])}, v.program[1:]...)
}

func (v *victim) undisturbed(t *testing.T, h *house, np int, want *sync.Map) string {
	once, _ := want.LoadOrStore(np, sync.OnceValue(func() string {
		return digest(t, h.must(append([]string{"-np", strconv.Itoa(np)}, v.command()...)...))
	}))
	return once.(func() string)()
}

func (v *victim) killOnce(t *testing.T, rng *rand.Rand, want *sync.Map) {
	h := v.house(t)
	np := 4 + rng.IntN(5)
	expected := v.undisturbed(t, h, np, want)

	who := []string{"rank", "rank", "agent", "head"}[rng.IntN(4)]
	phase, nth := v.phases[rng.IntN(len(v.phases))], 1+rng.IntN(3)
	alone := who != "head" && rng.IntN(2) == 0
	args := []string{"-np", strconv.Itoa(np), v.cr, "-v", "-ckpt-every", "40ms", "-keep", "3", "-agents", strconv.Itoa(1 + rng.IntN(2)),
		"-jobid-file", filepath.Join(h.run, "id")}
	args = slices.Concat(args, carrier(t, rng), algorithms(t, rng))
	if alone {
		args = append(args, "-restarts", "2")
	}
	t.Logf("kill a %s at the %d. %q, np=%d, alone=%v", who, nth, phase, np, alone)

	p := h.start(append(args, v.command()...)...)
	id := jobID(t, p, filepath.Join(h.run, "id"))
	agents, ranks := p.family()
	all := append(append([]int{}, agents...), ranks...)
	if p.errs.wait(": "+phase, nth) {
		pid := p.cmd.Process.Pid
		switch who {
		case "rank":
			pid = ranks[rng.IntN(len(ranks))]
		case "agent":
			pid = agents[rng.IntN(len(agents))]
		}
		syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
	}
	code := p.wait()
	gone(t, all...)
	h.clean()

	out := p.out.String()
	switch {
	case code == 0: // the run was over before the kill, or went on by itself
	case alone:
		t.Fatalf("did not go on by itself: exit %d\n%s", code, p.errs)
	default:
		out = h.goOn(id, carrier(t, rng)...)
		if out == "" {
			return // killed before the first commit
		}
	}
	if got := digest(t, out); got != expected {
		t.Fatalf("digest %s, undisturbed %s\n%s", got, expected, p.errs)
	}
}

// goOn verifies the snapshots of a dead job and restarts the newest; "" if
// there is none.
func (h *house) goOn(id string, flags ...string) string {
	h.t.Helper()
	schemas, _ := filepath.Glob(filepath.Join(h.ckpt, "*", "*", "schema.toml"))
	if len(schemas) == 0 {
		h.must("snapshots") // removes what was never finished
		return ""
	}
	h.must("snapshots", "-verify", id)
	out := h.must(append(append([]string{"restart"}, flags...), id)...)
	h.clean()
	return out
}

// TestCheckpointRestartByHand does what the README tells a user to do, ten
// times over: checkpoint, kill, restart the restarted.
func TestCheckpointRestartByHand(t *testing.T) {
	h := newHouse(t)
	args := []string{"-poisson", "10", "-iters", "600", "-tol", "0", "-slow", "3ms"} // long enough for ten kills also on a busy machine
	expected := digest(t, h.must(append([]string{"-np", "4", filepath.Join(bin, "solver")}, args...)...))
	file := filepath.Join(h.run, "id")
	p := h.start(append([]string{"-np", "4", "-cr=self", "-jobid-file", file, filepath.Join(bin, "solver")}, args...)...)
	for round := range 10 {
		id := jobID(t, p, file)
		schema := strings.TrimSpace(h.must("checkpoint", id))
		if _, err := os.Stat(schema); err != nil {
			t.Fatalf("round %d: printed schema: %v", round, err)
		}
		agents, ranks := p.family()
		syscall.Kill(h.pid(id, round%len(ranks)), syscall.SIGKILL)
		if code := p.wait(); code != 128+int(syscall.SIGKILL) {
			t.Fatalf("round %d: exit %d after a rank was killed\n%s", round, code, p.errs)
		}
		if !strings.Contains(p.errs.String(), fmt.Sprintf("rank %d", round%len(ranks))) {
			t.Errorf("round %d: the dead rank is not named:\n%s", round, p.errs)
		}
		gone(t, append(agents, ranks...)...)
		os.Remove(file)
		p = h.start(append(append([]string{"restart", "-jobid-file", file}, carriers[round%len(carriers)]...), schema)...)
	}
	if code := p.wait(); code != 0 {
		t.Fatalf("last restart: exit %d\n%s", code, p.errs)
	}
	if got := digest(t, p.out.String()); got != expected {
		t.Fatalf("digest %s, undisturbed %s", got, expected)
	}
	h.clean()
}
