//go:build !gorun_nocr

package shm

import (
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
)

// mapLate makes modules map their peers at their first use, however few there are.
func mapLate(t testing.TB) {
	before := mapAtOnce
	mapAtOnce = 0
	t.Cleanup(func() { mapAtOnce = before })
}

// Among many ranks only those map each other that exchange messages.
func TestMapsLate(t *testing.T) {
	mapLate(t)
	before := mappings(t)
	w := newWorld(t, 4)
	defer w.Close()
	if n := mappings(t) - before; n != 4 {
		t.Errorf("%d mappings of 4 ranks that have said nothing", n)
	}
	for peer := range 4 {
		if w.M[0].Reaches(peer) != (peer != 0) {
			t.Errorf("rank %d is not as far as it should be", peer)
		}
	}
	w.Connect(2, 1)
	if n := mappings(t) - before; n != 4+2*3 {
		t.Errorf("%d mappings when two have talked", n)
	}
}

// Modules do the same whenever they map each other.
func TestMappedLate(t *testing.T) {
	mapLate(t)
	for name, test := range map[string]func(*testing.T){
		"kinds": TestKinds, "frames": TestFrames, "held": TestHeld, "full": TestFull, "wakes": TestWakes, "model": TestModel,
		"direct": TestDirect, "boards": TestBoards, "ring and ask": TestRingAndAsk, "forgo": TestForgo, "left": TestNothingLeft,
		"checkpoints": TestEnginesWithCheckpoints, "matching": TestEnginesMatch,
	} {
		t.Run(name, test)
	}
}

// A peer that is gone before it was ever used is missed by the rank that needs it.
func TestGoneBeforeMapped(t *testing.T) {
	mapLate(t)
	w := newWorld(t, 3)
	defer w.Close()
	w.M[1].Close()
	w.M[1] = w.M[2]
	h := eager(1, 8)
	if r := w.M[0].Send(1, &h, pattern(1, 8), 1, false); r != rpi.Full {
		t.Errorf("a frame to nobody: %v", r)
	}
	w.Until("missed", func() bool { return len(w.S[0].Downs[1]) > 0 })
	w.Poll()
	if downs := w.S[0].Downs[1]; len(downs) != 1 || !strings.Contains(downs[0].Error(), "rank 1: its memory cannot be mapped") {
		t.Error(downs)
	}
	if w.M[0].Send(1, &h, pattern(1, 8), 1, false) != rpi.Full || !w.M[0].Quiet() {
		t.Error("there is still something to do")
	}
}
