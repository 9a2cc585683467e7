package store_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
)

// Slots are written again and again, longer and shorter, by way of mappings that were kept and of fresh ones.
func TestSlots(t *testing.T) {
	fd, err := unix.MemfdCreate("slot", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "slot")
	defer f.Close()
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	var kept store.Slots
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 16 {
		size := rng.IntN(36 << 20)
		open := kept.Open
		if round%5 == 4 {
			open = store.OpenSlot
		}
		if round == 13 {
			kept.Close()
		}
		s, err := open(path)
		if err != nil {
			t.Fatal(err)
		}
		var want [][2]int // what was written where: content is the offset and the round
		for range 6 {
			at := rng.IntN(size + 1)
			n := min(rng.IntN(1<<20), size-at)
			if _, err := s.WriteAt(bytes.Repeat([]byte{byte(round + 1)}, n), int64(at)); err != nil {
				t.Fatal(err)
			}
			want = append(want, [2]int{at, n})
		}
		if round%7 == 6 {
			if err := s.Abort(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := s.Commit(int64(size)); err != nil {
			t.Fatal(err)
		}
		if st, err := f.Stat(); err != nil || st.Size() != int64(size) {
			t.Fatalf("%d bytes, wanted %d, %v", st.Size(), size, err)
		}
		for _, w := range want {
			got := make([]byte, w[1])
			if _, err := f.ReadAt(got, int64(w[0])); err != nil || bytes.Count(got, []byte{byte(round + 1)}) != w[1] {
				t.Fatalf("round %d: %d bytes at %d are others: %v", round, w[1], w[0], err)
			}
		}
		if _, err := s.WriteAt([]byte{1}, 0); err == nil {
			t.Fatal("written to after its commit")
		}
	}
}
