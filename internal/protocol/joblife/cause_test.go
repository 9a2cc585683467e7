package joblife

import (
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

func exitStatus(n int) syscall.WaitStatus                  { return syscall.WaitStatus(n << 8) }
func killedBy(s syscall.Signal) syscall.WaitStatus         { return syscall.WaitStatus(s) }
func inMPI(c *causes, rank int, s syscall.WaitStatus) bool { return c.exited(rank, s, Up, true) }

func TestCauses(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(c *causes)
		code int
		text string
		died bool
	}{
		{"signal", func(c *causes) { inMPI(c, 2, killedBy(9)) }, 137, "rank 2 was killed by signal 9 (SIGKILL)", true},
		{"status", func(c *causes) { c.exited(1, exitStatus(3), Spawned, false) }, 3, "rank 1 exited with status 3", true},
		{"no Finalize", func(c *causes) { inMPI(c, 1, 0) }, 1, "rank 1 exited with status 0 without calling Finalize", true},
		{"no Init", func(c *causes) { c.exited(4, 0, Spawned, true) }, 1, "rank 4 ended without calling Init", true},
		{"after Finalize", func(c *causes) { c.exited(0, exitStatus(5), Final, true) }, 5, "rank 0 exited with status 5", true},
		{"abort", func(c *causes) { c.aborted(3, 42, oob.AbortDecided, ""); inMPI(c, 3, exitStatus(42)) }, 42, "rank 3 aborted the job with code 42", false},
		{"abort 0", func(c *causes) { c.aborted(3, 0, oob.AbortDecided, "") }, 0, "rank 3 aborted the job with code 0", false},
		{"abort 256", func(c *causes) { c.aborted(3, 256, oob.AbortDecided, "") }, 1, "rank 3 aborted the job with code 256", false},
		{"panic", func(c *causes) { c.aborted(3, 1, oob.AbortPanic, ""); inMPI(c, 3, exitStatus(1)) }, 1, "rank 3 panicked", true},
		{"a device's death", func(c *causes) {
			c.aborted(0, 1, oob.AbortLost, "panic: the offload process has ended: signal: killed\n\ngoroutine 1")
			inMPI(c, 0, exitStatus(1))
		}, 1, "rank 0 cannot go on: panic: the offload process has ended: signal: killed", true},
		{"panic after another's death", func(c *causes) {
			c.failing(0, true, false, "peer failed: rank 3")
			c.aborted(0, 1, oob.AbortPanic, "")
			inMPI(c, 3, killedBy(9))
		}, 137, "rank 3 was killed", true},
		{"stands until the restart", func(c *causes) { c.failing(0, true, true, "peer failed: rank 3"); inMPI(c, 3, killedBy(9)) }, 137, "rank 3 was killed", true},
		{"stands, and nobody tells why", func(c *causes) { c.failing(0, true, true, "peer failed: rank 3") }, 1, "rank 0 has lost another rank: peer failed: rank 3", true},
		{"failure, then exit", func(c *causes) {
			c.failing(0, false, false, "no transport\nreally")
			c.exited(0, exitStatus(1), Greeted, true)
		},
			1, "rank 0 exited with status 1: no transport; really", true},
		{"consequence before cause", func(c *causes) {
			c.aborted(0, 1, oob.AbortFollows, "")
			inMPI(c, 0, exitStatus(1))
			inMPI(c, 3, killedBy(9))
		}, 137, "rank 3 was killed", true},
		{"announced consequence before cause", func(c *causes) {
			c.failing(0, true, false, "peer failed: rank 3")
			inMPI(c, 0, exitStatus(1))
			inMPI(c, 3, killedBy(11))
		}, 139, "rank 3 was killed", true},
		{"announced abort before cause", func(c *causes) {
			c.failing(0, true, false, "peer failed: rank 3")
			c.aborted(0, 7, oob.AbortDecided, "")
			inMPI(c, 0, exitStatus(7))
			inMPI(c, 3, killedBy(9))
		}, 137, "rank 3 was killed", true},
		{"announced abort without cause", func(c *causes) {
			c.failing(0, true, false, "peer failed: rank 3")
			c.aborted(0, 7, oob.AbortDecided, "")
			inMPI(c, 0, exitStatus(7))
		}, 7, "rank 0 gave up, as another rank was lost", true},
		{"abort beside an announced one", func(c *causes) {
			c.failing(0, true, false, "peer failed: rank 3")
			c.aborted(0, 7, oob.AbortDecided, "")
			c.aborted(3, 42, oob.AbortDecided, "")
		}, 42, "rank 3 aborted the job with code 42", false},
		{"unannounced consequence before cause", func(c *causes) { inMPI(c, 0, exitStatus(1)); inMPI(c, 3, killedBy(9)) }, 137, "rank 3 was killed", true},
		{"only consequences", func(c *causes) { c.aborted(5, 1, oob.AbortFollows, ""); c.aborted(6, 2, oob.AbortFollows, "") }, 1, "rank 5 gave up, as another rank was lost", true},
		{"first of two", func(c *causes) { inMPI(c, 1, exitStatus(4)); inMPI(c, 2, exitStatus(5)) }, 4, "rank 1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all causes
			c.do(&all)
			v, _ := all.verdict()
			if v == nil {
				t.Fatal("no cause found")
			}
			if v.Code != c.code || !strings.HasPrefix(v.Text, c.text) || v.Died != c.died {
				t.Errorf("got %d %q died %v, want %d %q died %v", v.Code, v.Text, v.Died, c.code, c.text, c.died)
			}
		})
	}
	for _, where := range []Phase{Spawned, Final} {
		var all causes
		failed := all.exited(0, 0, where, where == Final)
		if v, _ := all.verdict(); failed || v != nil {
			t.Errorf("a good end %v counts as a failure", where)
		}
	}
}
