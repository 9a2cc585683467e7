package memcopy

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Bytes is copy, whatever the length, the places and what there is room for.
func TestBytesAnywhere(t *testing.T) {
	const most = 20 << 10
	r := rand.New(rand.NewPCG(1, 2))
	src, got, want := make([]byte, most), make([]byte, most), make([]byte, most)
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	for range 20000 {
		n := r.IntN(most/2) >> r.IntN(10)
		to, at, room := r.IntN(most-n), r.IntN(most-n), n
		if r.IntN(4) == 0 {
			room = r.IntN(n + 1)
		}
		if k := Bytes(got[to:to+room], src[at:at+n]); k != room {
			t.Fatalf("%d of %d bytes, there is room for %d", k, n, room)
		}
		copy(want[to:to+room], src[at:at+n])
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes from %d to %d differ", room, at, to)
		}
	}
}

// Bytes is copy, whatever lengths and alignments are, and touches nothing else.
func TestBytes(t *testing.T) {
	const most = 48 << 10
	src := make([]byte, most)
	for i := range src {
		src[i] = byte(i*7 + i>>8)
	}
	for _, n := range []int{0, 1, 4095, 4096, 4097, 4096 + 63, most / 3, 2*most/3 + 1} {
		for _, to := range []int{0, 1, 8, 63, 64} {
			for _, at := range []int{0, 1, 63} {
				got, want := make([]byte, most), make([]byte, most)
				if k := Bytes(got[to:to+n], src[at:]); k != n {
					t.Fatalf("%d of %d bytes", k, n)
				}
				copy(want[to:to+n], src[at:])
				if !bytes.Equal(got, want) {
					t.Fatalf("%d bytes from %d to %d differ", n, at, to)
				}
			}
		}
	}
	if got := make([]byte, 5000); Bytes(got, src[:4500]) != 4500 || !bytes.Equal(got[:4500], src[:4500]) || got[4500] != 0 {
		t.Error("less than there is room for")
	}
}
