package shm

import (
	"errors"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
)

// An access that is forbidden is told once, with the remedy, if a parameter asks for it. A peer that this
// rank may not look at is not dead.
func TestDenied(t *testing.T) {
	var told []error
	w := newWorld(t, 2, smallDirect, func(e *rpi.Env) {
		e.Denied = func(peer int, err error) {
			if peer != 1-e.Rank {
				t.Errorf("rank %d tells of rank %d", e.Rank, peer)
			}
			told = append(told, err)
		}
	})
	defer w.Close()
	if len(told) > 0 {
		t.Skip("this machine does not allow it: ", told[0])
	}
	m := w.M[0]
	key, ok := w.M[1].Publish(0, make([]byte, 100))
	if !ok {
		t.Fatal("not published")
	}
	for range 2 {
		m.deny(1, unix.SYS_PROCESS_VM_READV, unix.EPERM)
		if m.trusted(1) || m.Read(1, key, 0, make([]byte, 10)) || m.Write(1, key, 0, make([]byte, 10)) {
			t.Error("done all the same")
		}
		if m.round(); !m.alive(1) || len(m.leaving) > 0 {
			t.Error("taken for dead")
		}
	}
	if len(told) != 1 || !errors.Is(told[0], unix.EPERM) || !strings.HasPrefix(told[0].Error(), "shm.direct: process_vm_readv: operation not permitted; ") {
		t.Errorf("told: %v", told)
	}
	w.M[1].deny(0, unix.SYS_PROCESS_VM_WRITEV, unix.ENOSYS)
	if len(told) != 2 || !strings.Contains(told[1].Error(), "process_vm_writev: function not implemented; run it on a kernel") {
		t.Errorf("told: %v", told)
	}
}

// Nobody is told where nothing was asked for.
func TestDeniedUnasked(t *testing.T) {
	w := newWorld(t, 2, func(e *rpi.Env) { e.Denied = func(_ int, err error) { t.Error(err) } })
	defer w.Close()
	w.M[0].deny(1, unix.SYS_PROCESS_VM_READV, unix.EPERM)
	if w.M[0].trusted(1) || !w.M[0].alive(1) {
		t.Error("trusted, or taken for dead")
	}
}
