package restore

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestAttributes: what a program has denied itself it is denied after a restart.
func TestAttributes(t *testing.T) {
	tr, img := imagedVictim(t, "modest", "threads")
	before := stateOf(t, img)
	if l := before.Limits; len(l) != state.NumLimits || l[unix.RLIMIT_NOFILE] != (state.Limit{Soft: 100, Hard: 200, Own: true}) || !lowered(before) || !before.NoNewPrivs {
		t.Fatalf("limits %v, one thread lowered %v, no_new_privs %v", before.Limits, lowered(before), before.NoNewPrivs)
	}
	tr.restore(img)
	tr.works(1)
	after := stateOf(t, tr.image(whole.CaptureOptions{}))
	for i, l := range after.Limits {
		if l.Soft != before.Limits[i].Soft {
			t.Errorf("resource limit %d is %d, was %d", i, l.Soft, before.Limits[i].Soft)
		}
	}
	if !lowered(after) || !after.NoNewPrivs {
		t.Errorf("one thread lowered %v, no_new_privs %v", lowered(after), after.NoNewPrivs)
	}
}

// lowered tells whether one thread alone has a lower priority.
func lowered(s *state.State) bool {
	n := 0
	usual := s.Threads[0].Nice // the test itself may run with a lower one
	for i := range s.Threads {
		usual = min(usual, s.Threads[i].Nice)
	}
	for i := range s.Threads {
		switch s.Threads[i].Nice {
		case usual:
		case usual + 7:
			n++
		default:
			return false
		}
	}
	return n == 1
}

// TestPlaced: where a program has bound a thread, what it has registered and what it is
// to its orphans and to the kernel that wants memory, it is after a restart.
func TestPlaced(t *testing.T) {
	tr, img := imagedVictim(t, "placed", "threads")
	check := func(img string) *state.State {
		t.Helper()
		s := stateOf(t, img)
		bound := slices.DeleteFunc(slices.Clone(s.Threads), func(th state.Thread) bool { return !slices.Equal(th.CPUs, []byte{1}) })
		if runtime.NumCPU() > 1 && len(bound) != 1 || !s.Subreaper || s.Membarrier&state.MembarrierPrivate == 0 || s.OOMAdj == nil || *s.OOMAdj != 777 {
			t.Errorf("%d threads are bound, subreaper %v, membarrier %#x, oom_score_adj %v", len(bound), s.Subreaper, s.Membarrier, s.OOMAdj)
		}
		return s
	}
	s := check(img)
	if r := tr.restore(img); r.Warn != "" {
		t.Error(r.Warn)
	}
	tr.works(1)
	check(tr.image(whole.CaptureOptions{}))
	tr.kill()
	far := rewrite(t, img, func(s *state.State) { s.Threads[0].CPUs = append(make([]byte, 500), 1) })
	if r := tr.restore(far); strings.Contains(r.Warn, "; ") || !strings.Contains(r.Warn, "processors") {
		t.Error(r.Warn)
	}
	tr.works(2)
	if plain := stateOf(t, imagedPath(t)); plain.Subreaper || plain.Membarrier != 0 || plain.OOMAdj != nil || plain.Threads[0].CPUs != nil || len(s.Threads) < 20 {
		t.Errorf("of a program that has asked for nothing: %+v", plain)
	}
}

// imagedPath is the image of a victim that does nothing.
func imagedPath(t *testing.T) string {
	_, img := imagedVictim(t)
	return img
}

// TestLocked: memory that is locked is locked after a restart, what was not there of it
// as well; where it is not permitted a note says so.
func TestLocked(t *testing.T) {
	tr, img := imagedVictim(t, "locked")
	before := stateOf(t, img).Locked
	if len(before) < 2 {
		t.Skip("too little memory can be locked here (ulimit -l)")
	}
	if len(before) != 2 || before[0].Whole == before[1].Whole {
		t.Fatalf("locked: %+v", before)
	}
	for range 2 {
		if r := tr.restore(img); r.Warn != "" {
			t.Error(r.Warn)
		}
		tr.works(1)
		if s, err := proc.Parsed(tr.pid, "status", proc.ParseStatus); err != nil || s.Locked != 128<<10 {
			t.Errorf("%d bytes are locked, %v", s.Locked, err)
		}
		img = tr.image(whole.CaptureOptions{})
		if after := stateOf(t, img).Locked; !slices.Equal(after, before) {
			t.Errorf("locked: %+v, was %+v", after, before)
		}
		tr.kill()
	}
	far := rewrite(t, img, func(s *state.State) { s.Locked[0].Start, s.Locked[0].End = 0x10000, 0x20000 })
	if r := tr.restore(far); strings.Contains(r.Warn, "; ") || !strings.Contains(r.Warn, "1 of 2 regions") {
		t.Error(r.Warn)
	}
	tr.works(2)
}

// TestPrivate: what others must not look at they must not after a restart.
func TestPrivate(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("cannot be imaged without privilege")
	}
	tr, img := imagedVictim(t, "private")
	tr.restore(img)
	tr.works(1)
	if !stateOf(t, tr.image(whole.CaptureOptions{})).Private {
		t.Error("others may look at it")
	}
}
