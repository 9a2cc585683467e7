package shm

import (
	"bytes"
	"testing"
)

// move is copy, whatever lengths and alignments are, and touches nothing else.
func TestMove(t *testing.T) {
	from := pattern(1, 3*largeChunk)
	for _, n := range []int{0, 1, 4095, 4096, 4097, 4096 + 63, largeChunk, 2*largeChunk + 1} {
		for _, to := range []int{0, 1, 8, 63, 64} {
			for _, at := range []int{0, 1, 63} {
				got, want := make([]byte, 3*largeChunk), make([]byte, 3*largeChunk)
				if k := move(got[to:to+n], from[at:]); k != n {
					t.Fatalf("%d of %d bytes", k, n)
				}
				copy(want[to:to+n], from[at:])
				if !bytes.Equal(got, want) {
					t.Fatalf("%d bytes from %d to %d differ", n, at, to)
				}
			}
		}
	}
	if got := make([]byte, 5000); move(got, from[:4500]) != 4500 || !bytes.Equal(got[:4500], from[:4500]) || got[4500] != 0 {
		t.Error("less than there is room for")
	}
}
