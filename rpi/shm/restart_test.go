//go:build !gorun_nocr

package shm

import (
	"testing"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"golang.org/x/sys/unix"
)

// petrify turns a module's memory into what it is in a process restored from an image: zeros that
// belong to this process alone, and a descriptor that leads nowhere.
func petrify(t testing.TB, m *Module) {
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
		lay(m.peers[i].pool, unix.PROT_READ|unix.PROT_WRITE)
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

func TestEnginesComeBack(t *testing.T) {
	before := mappings(t)
	moduletest.ComeBack(t, build, func(m *Module) {
		petrify(t, m)
		m.Poll() // as the engine may, once more
	}, moduletest.Options{Env: moduletest.With("shm.direct", "100000")}, func(j *job) { takeTurns(j, 100) })
	if after := mappings(t); after != before {
		t.Errorf("%d mappings before, %d after", before, after)
	}
}

func TestEnginesComeBackMappedLate(t *testing.T) {
	mapLate(t)
	TestEnginesComeBack(t)
}

func TestWaitAndWakeRaceWithRestart(t *testing.T) {
	m := New()
	moduletest.WaitAndWake(t, m, func() {
		m.waking.Lock()
		if m.word != nil {
			m.arm(false)
		}
		m.waking.Unlock()
		m.Wait(-1)
	})
}
