package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A run short enough to be killed two hundred times, long enough to be
// checkpointed often: about half a second.
var killArgs = []string{"-poisson", "10", "-iters", "120", "-tol", "0", "-slow", "3ms"}

// phases are the steps of a checkpoint as -v tells them on standard error.
var phases = []string{"points", "closing", "draining", "capturing", "writing", "committing", "committed"}

// TestKill kills a random process at a random step of a random checkpoint. The
// newest committed snapshot must verify and restart to the bit-identical
// result, by itself with -restarts, and nothing may be left behind.
func TestKill(t *testing.T) {
	n := 6
	if s := os.Getenv("GORUN_KILLS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	} else if testing.Short() {
		n = 2
	}
	seed := rand.Uint64()
	if s := os.Getenv("GORUN_KILL_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, GORUN_KILL_SEED=%d", n, seed)
	var want sync.Map // np -> digest of the undisturbed run
	t.Run("group", func(t *testing.T) {
		for i := range n {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				killOnce(t, rand.New(rand.NewPCG(seed, uint64(i))), &want)
			})
		}
	})
}

func undisturbed(t *testing.T, h *house, np int, want *sync.Map) string {
	once, _ := want.LoadOrStore(np, sync.OnceValue(func() string {
		args := append([]string{"-np", strconv.Itoa(np), filepath.Join(bin, "solver")}, killArgs...)
		return digest(t, h.must(args...))
	}))
	return once.(func() string)()
}

func killOnce(t *testing.T, rng *rand.Rand, want *sync.Map) {
	h := newHouse(t)
	np := 4 + rng.IntN(5)
	expected := undisturbed(t, h, np, want)

	victim := []string{"rank", "rank", "agent", "head"}[rng.IntN(4)]
	phase, nth := phases[rng.IntN(len(phases))], 1+rng.IntN(3)
	alone := victim != "head" && rng.IntN(2) == 0
	args := []string{"-np", strconv.Itoa(np), "-cr", "-v", "-ckpt-every", "40ms", "-keep", "3", "-agents", strconv.Itoa(1 + rng.IntN(2)),
		"-jobid-file", filepath.Join(h.run, "id")}
	if alone {
		args = append(args, "-restarts", "2")
	}
	args = append(append(args, filepath.Join(bin, "solver")), killArgs...)
	t.Logf("kill a %s at the %d. %q, np=%d, alone=%v", victim, nth, phase, np, alone)

	p := h.start(args...)
	id := jobID(t, p, filepath.Join(h.run, "id"))
	agents, ranks := p.family()
	all := append(append([]int{}, agents...), ranks...)
	if p.errs.wait(": "+phase, nth) {
		pid := p.cmd.Process.Pid
		switch victim {
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
		out = h.goOn(id)
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
func (h *house) goOn(id string) string {
	h.t.Helper()
	schemas, _ := filepath.Glob(filepath.Join(h.ckpt, "*", "*", "schema.toml"))
	if len(schemas) == 0 {
		return ""
	}
	h.must("snapshots", "-verify", id)
	out := h.must("restart", id)
	h.clean()
	return out
}

// TestCheckpointRestartByHand does what the README tells a user to do, ten
// times over: checkpoint, kill, restart the restarted.
func TestCheckpointRestartByHand(t *testing.T) {
	h := newHouse(t)
	args := []string{"-poisson", "10", "-iters", "150", "-tol", "0", "-slow", "3ms"}
	expected := digest(t, h.must(append([]string{"-np", "4", filepath.Join(bin, "solver")}, args...)...))
	file := filepath.Join(h.run, "id")
	p := h.start(append([]string{"-np", "4", "-cr", "-jobid-file", file, filepath.Join(bin, "solver")}, args...)...)
	for round := range 10 {
		id := jobID(t, p, file)
		schema := strings.TrimSpace(h.must("checkpoint", id))
		if _, err := os.Stat(schema); err != nil {
			t.Fatalf("round %d: printed schema: %v", round, err)
		}
		agents, ranks := p.family()
		syscall.Kill(ranks[round%len(ranks)], syscall.SIGKILL)
		if code := p.wait(); code != 128+int(syscall.SIGKILL) {
			t.Fatalf("round %d: exit %d after a rank was killed\n%s", round, code, p.errs)
		}
		if !strings.Contains(p.errs.String(), fmt.Sprintf("rank %d", round%len(ranks))) {
			t.Errorf("round %d: the dead rank is not named:\n%s", round, p.errs)
		}
		gone(t, append(agents, ranks...)...)
		os.Remove(file)
		p = h.start("restart", "-jobid-file", file, schema)
	}
	if code := p.wait(); code != 0 {
		t.Fatalf("last restart: exit %d\n%s", code, p.errs)
	}
	if got := digest(t, p.out.String()); got != expected {
		t.Fatalf("digest %s, undisturbed %s", got, expected)
	}
	h.clean()
}
