package providertest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// grow gives the end more memory.
func (e *end) grow(t testing.TB, n int) {
	t.Helper()
	check(t, e.region.Close())
	e.memory = make([]byte, n)
	var err error
	e.region, err = e.domain.Register(e.memory, provider.LocalWrite|provider.RemoteRead|provider.RemoteWrite)
	check(t, err)
}

// testLarge tests requests of many packets, several under way at once, whose bytes meet small ones of the same pair.
func testLarge(t *testing.T, open Open) {
	const n = 300_000
	a, b := newEnd(t, open, false), newEnd(t, open, false)
	a.grow(t, 8*n)
	b.grow(t, 8*n)
	connect(t, a, b)
	for i := range 4 * n {
		a.memory[i] = byte(i * 7 >> 3)
	}
	b.receive(t, provider.ReceiveRequest{ID: 1, Segments: append(b.at(0, 1000), b.at(n, n-1000)...)}, provider.ReceiveRequest{ID: 2, Segments: b.at(3*n, 100)})
	a.send(t, provider.SendRequest{ID: 1, Opcode: provider.Send, Segments: append(a.at(0, n-7), a.at(2*n, 7)...)},
		provider.SendRequest{ID: 2, Opcode: provider.Write, Segments: a.at(n, n), Remote: b.remote(4 * n)},
		provider.SendRequest{ID: 3, Opcode: provider.Write, Segments: a.at(2*n, n), Remote: b.remote(4*n + n/2)}, // over the former
		provider.SendRequest{ID: 4, Opcode: provider.Write, Segments: a.at(0, 100), Remote: b.remote(5 * n)},     // and this
		provider.SendRequest{ID: 5, Opcode: provider.Send, Segments: a.at(0, 50)},
		provider.SendRequest{ID: 6, Opcode: provider.Read, Flags: provider.Signalled, Segments: append(a.at(4*n, 5), a.at(5*n, 3*n/2-5)...), Remote: b.remote(4 * n)})
	until(t, "all completed", func() bool { return len(a.seen) == 1 && len(b.seen) == 2 }, a, b)
	if c := append(a.seen, b.seen...); c[0].Status != 0 || c[0].Bytes != 3*n/2 || c[1].ID != 1 || c[1].Status != 0 || c[1].Bytes != n || c[2].ID != 2 {
		t.Errorf("%v", c)
	}
	if got := append(bytes.Clone(b.memory[:1000]), b.memory[n:2*n-1000]...); !bytes.Equal(got, append(bytes.Clone(a.memory[:n-7]), a.memory[2*n:2*n+7]...)) {
		t.Error("message")
	}
	want := append(bytes.Clone(a.memory[n:n+n/2]), a.memory[2*n:3*n]...)
	copy(want[n:], a.memory[:100])
	if !bytes.Equal(b.memory[4*n:4*n+3*n/2], want) {
		t.Error("writes")
	}
	if got := append(bytes.Clone(a.memory[4*n:4*n+5]), a.memory[5*n:5*n+3*n/2-5]...); !bytes.Equal(got, want) {
		t.Error("read")
	}
}

// testNotReady tests that a message is over at its sender only when a receive has taken it.
func testNotReady(t *testing.T, open Open) {
	a, b := newEnd(t, open, false), newEnd(t, open, true)
	connect(t, a, b)
	a.send(t, provider.SendRequest{ID: 1, Opcode: provider.Write, Flags: provider.Signalled, Segments: a.at(0, 10), Remote: b.remote(0)},
		provider.SendRequest{ID: 2, Opcode: provider.Send, Flags: provider.Signalled, Segments: a.at(0, 10)},
		provider.SendRequest{ID: 3, Opcode: provider.Write, Flags: provider.Signalled, Segments: a.at(0, 10), Remote: b.remote(0)})
	until(t, "the write completed", func() bool { return len(a.seen) == 1 }, a, b)
	for range 50 {
		until(t, "", func() bool { return true }, a, b)
		var buf [4]provider.Completion
		for _, e := range []*end{a, b} {
			n, err := e.queue.Poll(buf[:])
			check(t, err)
			e.seen = append(e.seen, buf[:n]...)
		}
	}
	if len(a.seen) != 1 || len(b.seen) != 0 {
		t.Fatalf("without a receive: %v, %v", a.seen, b.seen)
	}
	b.receive(t, provider.ReceiveRequest{ID: 7, Segments: b.at(100, 10)})
	until(t, "the rest completed", func() bool { return len(a.seen) == 3 && len(b.seen) == 1 }, a, b)
}

// testEarly tests that what a peer sends before this side is ready arrives.
func testEarly(t *testing.T, open Open) {
	a, b := newEnd(t, open, false), newEnd(t, open, false)
	for _, e := range []*end{a, b} {
		check(t, e.pair.Modify(provider.Change{To: provider.Init, Access: provider.RemoteWrite}))
	}
	check(t, a.pair.Modify(provider.Change{To: provider.ReadyToReceive, Peer: b.pair.Address()}))
	check(t, a.pair.Modify(provider.Change{To: provider.ReadyToSend}))
	a.send(t, provider.SendRequest{ID: 1, Opcode: provider.Send, Flags: provider.Signalled, Segments: a.at(0, 10)})
	for range 50 {
		until(t, "", func() bool { return true }, a, b)
	}
	b.receive(t, provider.ReceiveRequest{ID: 1, Segments: b.at(0, 10)})
	check(t, b.pair.Modify(provider.Change{To: provider.ReadyToReceive, Peer: a.pair.Address()}))
	until(t, "completed", func() bool { return len(a.seen) == 1 && len(b.seen) == 1 }, a, b)
}

// testOrder tests that messages of any size come in order, and each once, with few receives posted at a time.
func testOrder(t *testing.T, open Open) {
	const messages = 300
	a, b := newEnd(t, open, false), newEnd(t, open, true)
	connect(t, a, b)
	sent, posted, got := 0, 0, 0
	until(t, "all received", func() bool {
		for ; sent < messages; sent++ {
			n := sent * 7919 % 6000
			at := sent % 8 * 8000
			if sent >= len(a.seen)+8 {
				break
			}
			for i := range n {
				a.memory[at+i] = byte(sent + i)
			}
			a.send(t, provider.SendRequest{ID: uint64(sent), Opcode: provider.SendImmediate, Flags: provider.Signalled, Immediate: uint32(sent), Segments: a.at(at, n)})
		}
		for ; got < len(b.seen); got++ {
			c := b.seen[got]
			if c.Status != 0 || c.ID != uint64(got) || int(c.Immediate) != got || int(c.Bytes) != got*7919%6000 {
				t.Fatalf("message %d: %+v", got, c)
			}
			for i, x := range b.memory[got%3*8000:][:c.Bytes] {
				if x != byte(got+i) {
					t.Fatalf("message %d, byte %d", got, i)
				}
			}
		}
		for ; posted < got+3; posted++ {
			b.receive(t, provider.ReceiveRequest{ID: uint64(posted), Segments: b.at(posted%3*8000, 6000)})
		}
		return got == messages && len(a.seen) == messages
	}, a, b)
	for i, c := range a.seen {
		if c.ID != uint64(i) || c.Status != 0 {
			t.Fatalf("completion %d: %+v", i, c)
		}
	}
}

// testFlush tests that all that is posted on a pair that is Failed completes, in order, unsignalled requests as well, and what is posted later.
func testFlush(t *testing.T, open Open) {
	a, b := newEnd(t, open, false), newEnd(t, open, false)
	connect(t, a, b)
	for i := range uint64(5) {
		a.send(t, provider.SendRequest{ID: i, Opcode: provider.Send, Segments: a.at(0, 10)})
		a.receive(t, provider.ReceiveRequest{ID: 100 + i})
	}
	check(t, a.pair.Modify(provider.Change{To: provider.Failed}))
	a.send(t, provider.SendRequest{ID: 5, Opcode: provider.Send})
	until(t, "flushed", func() bool { return len(a.seen) == 11 }, a)
	sends, receives := uint64(0), uint64(100)
	for _, c := range a.seen {
		switch {
		case c.Status != provider.Flushed:
			t.Errorf("%+v", c)
		case c.ID == sends:
			sends++
		case c.ID == receives:
			receives++
		}
	}
	if sends != 6 || receives != 105 {
		t.Errorf("%+v", a.seen)
	}
}

// testFull tests the depth of queues: slots of unsignalled requests are free when a later one has completed.
func testFull(t *testing.T, open Open) {
	a, b := newEnd(t, open, false), newEnd(t, open, false)
	connect(t, a, b)
	for round := range 3 {
		var list []provider.SendRequest
		for i := range 17 {
			list = append(list, provider.SendRequest{ID: uint64(i), Opcode: provider.Write, Segments: a.at(0, 10), Remote: b.remote(0)})
		}
		list[15].Flags = provider.Signalled
		if n, err := a.pair.PostSend(list); n != 16 || !errors.Is(err, provider.ErrFull) {
			t.Fatalf("round %d: %d, %v", round, n, err)
		}
		until(t, "completed", func() bool { return len(a.seen) == round+1 }, a, b)
	}
	for name, r := range map[string]provider.SendRequest{
		"inline": {Flags: provider.Inline, Segments: []provider.Segment{{Data: make([]byte, 65)}}},
		"read":   {Opcode: provider.Read, Flags: provider.Inline},
		"pieces": {Segments: make([]provider.Segment, 4)},
		"opcode": {Opcode: provider.Receive},
	} {
		if n, err := a.pair.PostSend([]provider.SendRequest{r}); n != 0 || !errors.Is(err, provider.ErrRequest) {
			t.Error(name, n, err)
		}
	}
}

// testBusy tests that objects close in their order only.
func testBusy(t *testing.T, open Open) {
	a := newEnd(t, open, true)
	for name, close := range map[string]func() error{"domain": a.domain.Close, "queue": a.queue.Close, "shared": a.shared.Close} {
		if err := close(); !errors.Is(err, provider.ErrBusy) {
			t.Error(name, err)
		}
	}
	if err := a.pair.Modify(provider.Change{To: provider.ReadyToSend}); !errors.Is(err, provider.ErrState) {
		t.Error(err)
	}
	if _, err := a.pair.PostSend(make([]provider.SendRequest, 1)); !errors.Is(err, provider.ErrState) {
		t.Error(err)
	}
	check(t, a.pair.Modify(provider.Change{To: provider.Init}))
	if err := a.pair.Modify(provider.Change{To: provider.ReadyToReceive, Peer: []byte("nobody")}); err == nil {
		t.Error("an address of nobody was taken")
	}
	for i, close := range []func() error{a.pair.Close, a.shared.Close, a.queue.Close, a.region.Close, a.domain.Close, a.dev.Close} {
		if err := close(); err != nil {
			t.Error(fmt.Sprint("close ", i), err)
		}
	}
}
