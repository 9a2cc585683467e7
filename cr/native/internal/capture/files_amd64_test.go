package capture

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// TestSameness tells apart what was opened twice and what was duplicated, among
// many descriptors that look alike.
func TestSameness(t *testing.T) {
	const opened, each = 100, 3
	s := newSameness()
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	first := map[int]int{} // by descriptor
	for range opened {
		fd, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		first[fd] = fd
		fds = append(fds, fd)
	}
	for range each {
		for _, of := range fds[:opened] {
			fd, err := unix.FcntlInt(uintptr(of), unix.F_DUPFD_CLOEXEC, fds[opened-1]+1)
			if err != nil {
				t.Fatal(err)
			}
			first[fd] = of
			fds = append(fds, fd)
		}
	}
	for _, fd := range fds {
		if got := s.first(os.Getpid(), state.File{FD: fd, Kind: state.FileRegular, Inode: 1}).fd; got != first[fd] {
			t.Errorf("descriptor %d is the same as %d, want %d", fd, got, first[fd])
		}
	}
	if got := s.first(os.Getpid(), state.File{FD: fds[1], Kind: state.FileRegular, Inode: 1, Offset: 5}).fd; got != fds[1] {
		t.Errorf("of another offset, and the same as %d", got)
	}
	if !s.kcmp {
		t.Skip("no kcmp here")
	}
}

func TestFilesOfOthersInProc(t *testing.T) {
	for path, refused := range map[string]bool{"/proc/7/stat": false, "/proc/8": true, "/proc/7/task/8/stat": true, "/proc/meminfo": false} {
		if err := checkProc(7, path); (err != nil) != refused {
			t.Errorf("%s: %v", path, err)
		}
	}
}
