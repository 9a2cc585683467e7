//go:build !gorun_nocr

package tcp

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"golang.org/x/sys/unix"
)

// petrify makes of a module's descriptors what they are in a process that was
// restored from an image: sockets are dead ends, the others made anew.
func petrify(t *testing.T, m *Module) {
	t.Helper()
	put := func(fd, at int, err error) {
		if err == nil {
			err = unix.Dup3(fd, at, unix.O_CLOEXEC)
		}
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
	m.waking.Lock() // as it is when a process is imaged: the file is what it is, Wake is before or after
	defer m.waking.Unlock()
	for fd, s := range m.slots {
		switch {
		case s.serial == 0:
		case fd == m.evfd:
			count := uint(0)
			if m.woken.Load() {
				count = 1
			}
			e, err := unix.Eventfd(count, unix.EFD_NONBLOCK)
			put(e, fd, err)
		case fd == m.tfd:
			f, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK)
			put(f, fd, err)
		default:
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
			put(pair[0], fd, err)
			unix.Close(pair[1])
		}
	}
	ep, err := unix.EpollCreate1(0)
	put(ep, m.epfd, err)
	for fd, s := range m.slots {
		if s.serial != 0 {
			if err := unix.EpollCtl(m.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd), Pad: s.serial}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestEnginesComeBack(t *testing.T) {
	moduletest.ComeBack(t, build, func(m *Module) { petrify(t, m) }, moduletest.Options{}, nil)
}

func TestWaitAndWakeRaceWithRestart(t *testing.T) {
	m := New()
	moduletest.WaitAndWake(t, m, func() {
		m.Wait(-1)
		m.nwaited.Store(0)
	})
}
