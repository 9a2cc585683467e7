//go:build !gorun_nocr

package shm

import (
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
)

// petrify makes of a module's memory what it is in a process that was restored
// from an image: zeros, of this process alone, and a descriptor that leads
// nowhere.
func petrify(t *testing.T, m *Module) {
	t.Helper()
	m.waking.Lock()
	defer m.waking.Unlock()
	lay := func(mem []byte, prot int) {
		if len(mem) == 0 {
			return
		}
		_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&mem[0]), uintptr(len(mem)), prot, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED)
		if err != nil {
			t.Fatal(err)
		}
	}
	lay(m.mem, unix.PROT_READ|unix.PROT_WRITE)
	for i := range m.peers {
		lay(m.peers[i].ctl.mem, unix.PROT_READ|unix.PROT_WRITE)
		lay(m.peers[i].data, unix.PROT_READ)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Dup3(pair[0], m.addr.fd, unix.O_CLOEXEC)
	}
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(pair[0])
	unix.Close(pair[1])
}

// Engines come back from images again and again while their callers are in the
// middle of messages of all protocols and of turns; whoever wakes or waits need not know.
func TestEnginesComeBack(t *testing.T) {
	const n, rounds, restarts = 4, 25, 10
	fds, maps := descriptors(t), mappings(t)
	engines, modules, addrs := make([]*rpi.Engine, n), make([]*Module, n), make([][]byte, n)
	start := func(i, incarnation int, begin func(rpi.Env) ([]byte, error)) {
		e := env(i, n)
		e.Sink, e.Incarnation, e.Secret = engines[i].Sink(0), uint64(incarnation), fmt.Append(nil, "secret ", incarnation)
		e.Params["shm.direct"] = "100000"
		var err error
		if addrs[i], err = begin(e); err != nil {
			t.Fatal(err)
		}
	}
	introduce := func() {
		for i, m := range modules {
			if err := m.Peers(addrs); err != nil {
				t.Fatal(err)
			}
			for j := range n {
				if err := m.Unreached(j); err != nil || j != i && !m.Reaches(j) {
					t.Fatal(err)
				}
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
	errs := make(chan error, 2*n)
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
	takeTurns(t, engines, 100, &callers, errs)
	for k := range restarts {
		open := closeAll(t, engines)
		for i, m := range modules {
			petrify(t, m)
			m.Poll() // as the engine may, once more
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
	if n := descriptors(t); n != fds {
		t.Errorf("%d descriptors before, %d after", fds, n)
	}
	if n := mappings(t); n != maps {
		t.Errorf("%d mappings before, %d after", maps, n)
	}
}

// A Wait that comes while the module restarts returns, and one that comes
// afterwards is woken: by Wake, also by one that met no memory.
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
				m.waking.Lock()
				if m.word != nil {
					m.arm(false)
				}
				m.waking.Unlock()
				m.Wait(-1) // somebody wakes
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
