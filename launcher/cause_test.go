package launcher

import (
	"strings"
	"syscall"
	"testing"
)

func exitStatus(n int) syscall.WaitStatus                  { return syscall.WaitStatus(n << 8) }
func killedBy(s syscall.Signal) syscall.WaitStatus         { return syscall.WaitStatus(s) }
func inMPI(c *causes, rank int, s syscall.WaitStatus) bool { return c.exited(rank, s, phaseUp, true) }

func TestCauses(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(c *causes)
		code int
		text string
		died bool
	}{
		{"signal", func(c *causes) { inMPI(c, 2, killedBy(9)) }, 137, "rank 2 was killed by signal 9 (SIGKILL)", true},
		{"status", func(c *causes) { c.exited(1, exitStatus(3), phaseSpawned, false) }, 3, "rank 1 exited with status 3", true},
		{"no Finalize", func(c *causes) { inMPI(c, 1, 0) }, 1, "rank 1 exited with status 0 without calling Finalize", true},
		{"no Init", func(c *causes) { c.exited(4, 0, phaseSpawned, true) }, 1, "rank 4 ended without calling Init", true},
		{"after Finalize", func(c *causes) { c.exited(0, exitStatus(5), phaseFinal, true) }, 5, "rank 0 exited with status 5", true},
		{"abort", func(c *causes) { c.aborted(3, 42, false, "no convergence"); inMPI(c, 3, exitStatus(42)) }, 42, "rank 3 aborted the job with code 42: no convergence", false},
		{"abort 0", func(c *causes) { c.aborted(3, 0, false, "") }, 0, "rank 3 aborted the job with code 0", false},
		{"abort 256", func(c *causes) { c.aborted(3, 256, false, "") }, 1, "rank 3 aborted the job with code 256", false},
		{"failure, then exit", func(c *causes) {
			c.failing(0, false, "no transport\nreally")
			c.exited(0, exitStatus(1), phaseGreeted, true)
		},
			1, "rank 0 exited with status 1: no transport; really", true},
		{"consequence before cause", func(c *causes) {
			c.aborted(0, 1, true, "peer failed: rank 3")
			inMPI(c, 0, exitStatus(1))
			inMPI(c, 3, killedBy(9))
		}, 137, "rank 3 was killed", true},
		{"announced consequence before cause", func(c *causes) {
			c.failing(0, true, "peer failed: rank 3")
			inMPI(c, 0, exitStatus(1))
			inMPI(c, 3, killedBy(11))
		}, 139, "rank 3 was killed", true},
		{"announced abort before cause", func(c *causes) {
			c.failing(0, true, "peer failed: rank 3")
			c.aborted(0, 7, false, "no bread")
			inMPI(c, 0, exitStatus(7))
			inMPI(c, 3, killedBy(9))
		}, 137, "rank 3 was killed", true},
		{"announced abort without cause", func(c *causes) {
			c.failing(0, true, "peer failed: rank 3")
			c.aborted(0, 7, false, "no bread")
			inMPI(c, 0, exitStatus(7))
		}, 7, "rank 0 gave up: no bread", true},
		{"abort beside an announced one", func(c *causes) {
			c.failing(0, true, "peer failed: rank 3")
			c.aborted(0, 7, false, "no bread")
			c.aborted(3, 42, false, "no milk")
		}, 42, "rank 3 aborted the job with code 42: no milk", false},
		{"unannounced consequence before cause", func(c *causes) { inMPI(c, 0, exitStatus(1)); inMPI(c, 3, killedBy(9)) }, 137, "rank 3 was killed", true},
		{"only consequences", func(c *causes) { c.aborted(5, 1, true, "peer failed"); c.aborted(6, 2, true, "peer failed") }, 1, "rank 5 gave up: peer failed", true},
		{"first of two", func(c *causes) { inMPI(c, 1, exitStatus(4)); inMPI(c, 2, exitStatus(5)) }, 4, "rank 1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all causes
			c.do(&all)
			v, _ := all.verdict()
			if v == nil {
				t.Fatal("no cause found")
			}
			if v.code != c.code || !strings.HasPrefix(v.text, c.text) || v.died != c.died {
				t.Errorf("got %d %q died %v, want %d %q died %v", v.code, v.text, v.died, c.code, c.text, c.died)
			}
		})
	}
	for _, where := range []phase{phaseSpawned, phaseFinal} {
		var all causes
		failed := all.exited(0, 0, where, where == phaseFinal)
		if v, _ := all.verdict(); failed || v != nil {
			t.Errorf("a good end %v counts as a failure", where)
		}
	}
}

func TestRankList(t *testing.T) {
	for want, ranks := range map[string][]int{"rank 3": {3}, "ranks 0-3, 7": {0, 1, 2, 3, 7}, "ranks 1, 3": {1, 3}} {
		if got := rankList(ranks); got != want {
			t.Errorf("%v: %q, want %q", ranks, got, want)
		}
	}
}

func TestShare(t *testing.T) {
	for np := 1; np < 70; np++ {
		for n := 1; n <= np; n++ {
			next := 0
			for i := range n {
				from, to := share(i, n, np)
				if from != next || to-from < np/n || to-from > (np+n-1)/n {
					t.Fatalf("np %d, agent %d of %d: %d to %d after %d", np, i, n, from, to, next)
				}
				next = to
			}
			if next != np {
				t.Fatalf("np %d over %d agents: %d ranks", np, n, next)
			}
		}
	}
}

func TestParseSignal(t *testing.T) {
	for in, want := range map[string]syscall.Signal{"TERM": 15, "SIGTERM": 15, "usr1": 10, "15": 15, "sigint": 2} {
		if got, err := ParseSignal(in); err != nil || got != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "0", "65", "-1", "NOSUCH", "SIG"} {
		if got, err := ParseSignal(in); err == nil {
			t.Errorf("%q is taken for %v", in, got)
		}
	}
}
