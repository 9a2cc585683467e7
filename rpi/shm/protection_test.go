package shm

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Of another rank's memory a rank can write only the payloads, and those only where they are
// mapped a second time.
func TestProtection(t *testing.T) {
	w := newWorld(t, 2)
	m := w.M[0]
	l := &m.layout
	for _, c := range []struct {
		name     string
		at       int
		writable bool
	}{
		{"boards", l.boards, false},
		{"the first ring", l.rings, false},
		{"the end of the rings", l.pool - 1, false},
		{"the first chunk", l.pool, false},
		{"the end of the pool", l.size - 1, false},
	} {
		if got := writable(t, m.peers[1].data[c.at:][:1]); got != c.writable {
			t.Errorf("%s: writable %v", c.name, got)
		}
	}
	if p := m.peers[1].pool; !writable(t, p[:1]) || !writable(t, p[len(p)-1:]) || len(p) != l.size-l.pool {
		t.Error("the pool is mapped a second time, but cannot be written")
	}
}

// writable asks the kernel whether memory can be written: it reads from a pipe into it.
func writable(t *testing.T, p []byte) bool {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	if _, err := unix.Write(ends[1], []byte{1}); err != nil {
		t.Fatal(err)
	}
	_, err := unix.Read(ends[0], p)
	if err != nil && !errors.Is(err, unix.EFAULT) {
		t.Fatal(err)
	}
	return err == nil
}
