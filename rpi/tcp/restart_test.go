//go:build !gorun_nocr

package tcp

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/rpi"
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

// Engines come back from images again and again while their callers are in the
// middle of messages of all protocols; whoever wakes or waits need not know.
func TestEnginesComeBack(t *testing.T) {
	const n, rounds, restarts = 4, 25, 10
	before := descriptors(t)
	engines, modules, addrs := make([]*rpi.Engine, n), make([]*Module, n), make([][]byte, n)
	start := func(i, incarnation int, begin func(rpi.Env) ([]byte, error)) {
		e := env(i, n)
		e.Sink, e.Incarnation, e.Secret = engines[i].Sink(0), uint64(incarnation), fmt.Append(nil, "secret ", incarnation)
		var err error
		if addrs[i], err = begin(e); err != nil {
			t.Fatal(err)
		}
	}
	introduce := func() {
		for _, m := range modules {
			if err := m.Peers(addrs); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range n {
		modules[i] = New()
		engines[i] = rpi.New(rpi.Config{Rank: i, Size: n, Modules: []rpi.Module{modules[i]}})
		start(i, 0, modules[i].Start)
	}
	introduce()
	var callers, wakers sync.WaitGroup
	errs := make(chan error, n)
	stop := make(chan struct{})
	for i, e := range engines {
		e.Start()
		callers.Go(func() {
			if err := exchange(e, i, n, rounds); err != nil {
				errs <- fmt.Errorf("rank %d: %w", i, err)
				for _, e := range engines {
					e.Abort(err)
				}
			}
		})
		wakers.Go(func() {
			for tick := time.NewTicker(100 * time.Microsecond); ; {
				modules[i].Wake()
				select {
				case <-stop:
					tick.Stop()
					return
				case <-tick.C:
				}
			}
		})
	}
	for k := range restarts {
		open := closeAll(t, engines)
		for i, m := range modules {
			petrify(t, m)
			start(i, k+1, m.Restart)
		}
		introduce()
		for _, e := range engines {
			if err := e.Restarted(nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		open()
	}
	callers.Wait()
	close(stop)
	wakers.Wait()
	select {
	case err := <-errs:
		t.Fatal(err)
	default:
	}
	for _, e := range engines {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := descriptors(t); after != before {
		t.Fatalf("%d descriptors before, %d after", before, after)
	}
}

// A Wait that comes while the module restarts returns, and one that comes
// afterwards is woken: by Wake, also by one that met no descriptor.
func TestWaitAndWakeRaceWithRestart(t *testing.T) {
	m := New()
	if _, err := m.Start(env(0, 1)); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				m.Wait(-1) // somebody wakes
				m.nwaited.Store(0)
			}
		}
	}()
	for k := range 200 {
		m.Wake()
		e := env(0, 1)
		e.Incarnation = uint64(k)
		if _, err := m.Restart(e); err != nil {
			t.Fatal(err)
		}
		m.Wake()
	}
	close(stop)
	for {
		m.Wake()
		select {
		case <-stopped:
			m.Close()
			return
		default:
		}
	}
}
