package shm

import (
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
)

// 64 ranks take no more than 64 MB together if each sends all it can to every other and uses all
// its boards. Two ranks, or silent ones, take much less.
func TestMemory(t *testing.T) {
	for _, c := range []struct{ ranks, most int }{{2, 5 << 20}, {16, 30 << 20}, {64, 64 << 20}} {
		w := newWorld(t, c.ranks)
		silent := touched(w)
		for from := range w.M {
			for to := range w.M {
				for _, size := range []int{1000, 5000, 8} { // until pool and ring are full
					for h := eager(1, size); from != to && w.M[from].Send(to, &h, pattern(0, size), 1, true) != rpi.Full; {
					}
					w.M[from].starved = nil
					w.M[from].peers[to].out.full = false
				}
			}
			w.M[from].Flush()
		}
		for _, m := range w.M {
			for i, size := range m.Boards() {
				for b := m.Board(i)[:size]; len(b) > 0; b = b[min(len(b), pageSize):] {
					b[0] = 1
				}
			}
		}
		all := touched(w)
		t.Logf("%d ranks: %d KB silent, %d KB in an all-to-all", c.ranks, silent>>10, all>>10)
		if all > c.most || silent > c.ranks*4*pageSize {
			t.Errorf("%d ranks: %d bytes touched silent, %d in an all-to-all", c.ranks, silent, all)
		}
		w.Close()
	}
}

// touched is the memory that all segments of a world take.
func touched(w *world) (sum int) {
	for _, m := range w.M {
		var st unix.Stat_t
		if err := unix.Fstat(m.addr.fd, &st); err != nil {
			w.T.Fatal(err)
		}
		sum += int(st.Blocks) * 512
	}
	return sum
}
