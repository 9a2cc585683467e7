package native

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAttributes: what a program has denied itself it is denied after a restart.
func TestAttributes(t *testing.T) {
	tr, img := imagedVictim(t, "modest", "threads")
	before := stateOf(t, img)
	if l := before.Limits; len(l) != numLimits || l[unix.RLIMIT_NOFILE] != (Limit{100, 200}) || !before.lowered() || !before.NoNewPrivs {
		t.Fatalf("limits %v, one thread lowered %v, no_new_privs %v", before.Limits, before.lowered(), before.NoNewPrivs)
	}
	tr.restore(img)
	tr.works(1)
	after := stateOf(t, tr.image(CaptureOptions{}))
	for i, l := range after.Limits {
		if l.Soft != before.Limits[i].Soft {
			t.Errorf("resource limit %d is %d, was %d", i, l.Soft, before.Limits[i].Soft)
		}
	}
	if !after.lowered() || !after.NoNewPrivs {
		t.Errorf("one thread lowered %v, no_new_privs %v", after.lowered(), after.NoNewPrivs)
	}
}

// lowered tells whether one thread alone has a lower priority.
func (s *State) lowered() bool {
	n := 0
	for i := range s.Threads {
		switch s.Threads[i].Nice {
		case 0:
		case 7:
			n++
		default:
			return false
		}
	}
	return n == 1
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
		if r := tr.restore(img); len(r.Notes) > 0 {
			t.Error(r.Notes)
		}
		tr.works(1)
		if s, err := parsedProc(tr.pid, "status", parseStatus); err != nil || s.locked != 128<<10 {
			t.Errorf("%d bytes are locked, %v", s.locked, err)
		}
		img = tr.image(CaptureOptions{})
		if after := stateOf(t, img).Locked; !slices.Equal(after, before) {
			t.Errorf("locked: %+v, was %+v", after, before)
		}
		tr.kill()
	}
	far := rewrite(t, img, func(s *State) { s.Locked[0].Start, s.Locked[0].End = 0x10000, 0x20000 })
	if r := tr.restore(far); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "1 of 2 regions") {
		t.Error(r.Notes)
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
	if !stateOf(t, tr.image(CaptureOptions{})).Private {
		t.Error("others may look at it")
	}
}
