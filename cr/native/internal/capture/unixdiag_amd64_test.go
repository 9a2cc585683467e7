package capture

import (
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel knows of a pair which two it is, and what waits.
func TestUnixDiag(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var inodes [2]uint64
	for i, fd := range pair {
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		inodes[i] = st.Ino
	}
	if _, err := unix.Write(pair[0], []byte("12345")); err != nil {
		t.Fatal(err)
	}
	a, err := newAsker()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	u, err := a.about(inodes[1])
	if err != nil {
		t.Skip(err) // a kernel that does not tell
	}
	if u.peer != inodes[0] || !u.connected || u.queue != 5 || u.shut != 0 {
		t.Errorf("it is told as %+v", u)
	}
	if _, err := a.about(1<<32 - 2); err == nil {
		t.Error("a socket that is none is told of")
	}
}

func FuzzUnixDiag(f *testing.F) {
	p := append(make([]byte, 32), 8, 0, 2, 0, 1, 2, 3, 4, 12, 0, 4, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5, 0, 6, 0, 3)
	f.Add(p)
	f.Fuzz(func(t *testing.T, p []byte) { parseUnixDiag(p) })
}
