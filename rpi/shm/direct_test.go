package shm

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
)

func smallDirect(e *rpi.Env) { e.Params["shm.direct"] = "1" }

// A buffer that a peer has published can be read and written, within its bounds, until it is
// withdrawn.
func TestDirect(t *testing.T) {
	w := newWorld(t, 3, smallDirect)
	defer w.Close()
	a, b := w.M[0], w.M[1]
	buf := pattern(1, 1<<20)
	key, ok := b.Publish(0, buf)
	if !ok {
		t.Skip("this machine does not allow it")
	}
	got := make([]byte, 1000)
	if !a.Read(1, key, 5000, got) || !bytes.Equal(got, pattern(1, 1<<20)[5000:6000]) {
		t.Error("read something else")
	}
	if !a.Write(1, key, 1<<20-1000, got) || !bytes.Equal(buf[1<<20-1000:], got) {
		t.Error("written elsewhere")
	}
	for name, ok := range map[string]bool{
		"beyond the end": a.Read(1, key, 1<<20-999, got),
		"far beyond":     a.Write(1, key, 1<<64-1, got),
		"another key":    a.Write(1, key+1<<32, 0, got),
		"another slot":   a.Read(1, key+1, 0, got),
		"no slot":        a.Read(1, key|1<<20, 0, got),
		"another rank":   a.Read(2, key, 0, got),
		"nothing":        a.Read(1, key, 0, nil),
	} {
		if ok {
			t.Errorf("%s was taken", name)
		}
	}
	b.Withdraw(0, key)
	b.Withdraw(0, key)
	b.Withdraw(0, 1<<20)
	if a.Read(1, key, 0, got) || a.Write(1, key, 0, got) {
		t.Error("withdrawn, and still there")
	}
	again, _ := b.Publish(0, buf)
	if again == key || a.Write(1, key, 0, got) {
		t.Error("an old key is a key of something else")
	}
}

func TestPublishManyAndNone(t *testing.T) {
	w := newWorld(t, 2, smallDirect)
	defer w.Close()
	m := w.M[0]
	var keys []uint64
	for range slots {
		if key, ok := m.Publish(1, make([]byte, 10)); ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		t.Skip("this machine does not allow it")
	}
	if _, ok := m.Publish(1, make([]byte, 10)); ok || len(keys) != slots {
		t.Errorf("%d of %d slots", len(keys), slots)
	}
	for _, key := range keys {
		m.Withdraw(1, key)
	}
	if _, ok := m.Publish(1, nil); ok {
		t.Error("nothing is published")
	}
	if _, ok := m.Publish(1, make([]byte, 10)); !ok {
		t.Error("no slot is free again")
	}
	m.peers[1].access = denied
	if _, ok := m.Publish(1, make([]byte, 10)); ok {
		t.Error("published to somebody who cannot read it")
	}
}

// Withdraw waits for a write under way, but not for one of a process that ended.
func TestWithdrawWaits(t *testing.T) {
	w := newWorld(t, 2, smallDirect)
	defer w.Close()
	m := w.M[0]
	key, ok := m.Publish(1, make([]byte, 10))
	if !ok {
		t.Skip("this machine does not allow it")
	}
	s := m.ctl.slot(int(uint32(key)))
	atomic.AddUint64(&s.word, slotWriter)
	done := make(chan struct{})
	go func() {
		m.Withdraw(1, key)
		close(done)
	}()
	for atomic.LoadUint64(&s.word)&slotPublished != 0 {
	}
	select {
	case <-done:
		t.Error("withdrawn under a writer")
	default:
	}
	atomic.AddUint64(&s.word, ^uint64(slotWriter-1))
	<-done

	key, _ = m.Publish(1, make([]byte, 10))
	atomic.AddUint64(&m.ctl.slot(int(uint32(key))).word, slotWriter)
	m.peers[1].base = 0 // what a process that is no longer there looks like
	m.Withdraw(1, key)
}

// Slots that a peer spoiled lead nowhere.
func TestSpoiledSlot(t *testing.T) {
	w := newWorld(t, 2, smallDirect)
	defer w.Close()
	a, b := w.M[0], w.M[1]
	key, ok := b.Publish(0, make([]byte, 100))
	if !ok {
		t.Skip("this machine does not allow it")
	}
	s := b.ctl.slot(int(uint32(key)))
	got := make([]byte, 10)
	for _, addr := range []uint64{0, 1 << 47, 1<<64 - 5} {
		s.addr, s.len = addr, 1<<64-1
		if a.Read(1, key, 0, got) || a.Write(1, key, 0, got) || a.Read(1, key, 1<<63, got) {
			t.Errorf("something at %#x", addr)
		}
	}
}
