package server

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/ranktest"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// alloc puts an Alloc that may have to wait.
func (s *session) alloc(id, bytes uint64) uint64 {
	return s.Put(offload.Command{Op: offload.Alloc, A: [8]uint64{id, bytes, 0, 0, 4096}})
}

// asks wants the process to tell what it uses and needs.
func (s *session) asks(memory, need int64) {
	s.Helper()
	if a := s.Answer(); a.Op != offload.Room || a.Memory != memory || a.Need != need {
		s.Fatalf("%+v, want %d of %d bytes", a, memory, need)
	}
}

// TestRoom has a process that shares its device ask for memory. An Alloc waits in the ring: what was put before it is done, and the process can be paused.
func TestRoom(t *testing.T) {
	f := newFake()
	f.room = 1000
	s := &session{Rank: ranktest.New(t)}
	s.serve(f, Options{Share: true})
	s.none(s.Build(1, "add", "add"))
	t1 := s.alloc(1, 64)
	s.asks(0, 64)
	if s.Ring.Done() != 1 {
		t.Fatalf("command %d is done; the Alloc has to wait", s.Ring.Done())
	}
	if a := s.Order(offload.Order{Op: offload.OrderPause, Attempt: 1}, "paused"); a.Taken != 1 || a.Memory != 0 {
		t.Errorf("%+v", a)
	}
	s.Order(offload.Order{Op: offload.OrderResume, Attempt: 2}, "running")
	s.send(offload.Order{Op: offload.OrderRoom, Bytes: 64})
	s.Wait(t1)
	s.Wait(s.run(1, memArg(1), byteArg(5)))

	t2 := s.alloc(2, 100)
	s.asks(64, 164)
	s.send(offload.Order{Op: offload.OrderRoom, Error: "others have it"})
	s.Done(t2)
	if text, refused := s.Ring.Refused(t2, 0, 4096); !refused || !strings.Contains(text, "others have it") {
		t.Errorf("%v %q", refused, text)
	}
	text, refused := s.Alloc(2, 1000) // nobody is asked
	s.refused(text, refused, "1000 bytes beside 64 that are used; it has 1000")

	// It frees: that is told. So does one that goes on elsewhere, which asks before it reads the capture.
	s.alloc(3, 36)
	s.asks(64, 100)
	s.send(offload.Order{Op: offload.OrderRoom, Bytes: 100})
	s.Wait(s.Put(offload.Command{Op: offload.Free, A: [8]uint64{3}}))
	s.asks(64, 0)
	path := filepath.Join(t.TempDir(), "c")
	if a := s.Order(offload.Order{Op: offload.OrderPause, Attempt: 3}, "paused"); a.Memory != 64 {
		t.Errorf("%+v", a)
	}
	s.Order(offload.Order{Op: offload.OrderCapture, Attempt: 3, Path: path, End: true, Passing: true}, "captured")
	s.Answer()
	s.end()
	f = newFake()
	if a := s.serve(f, Options{Restore: path, Share: true}); a.Op != offload.Room || a.Need != 64 || f.room != 1<<30 {
		t.Fatalf("%+v, and %d bytes are left", a, f.room)
	}
	s.send(offload.Order{Op: offload.OrderRoom, Bytes: 64})
	if a := s.Answer(); a.Op != offload.Hello || a.Error != "" {
		t.Fatalf("%+v", a)
	}
	s.Order(offload.Order{Op: offload.OrderResume, Attempt: 4}, "running")
	s.Wait(s.run(1, memArg(1), byteArg(5)))
	if got := s.Read(1, 1); got[0] != 10 {
		t.Errorf("%v", got)
	}
	s.end()
}
