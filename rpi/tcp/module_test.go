package tcp

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestKinds(t *testing.T) { moduletest.Kinds(t, build) }

var (
	_ rpi.Module = (*Module)(nil)
	_ rpi.Waiter = (*Module)(nil)
)

func TestRegistered(t *testing.T) {
	f, ok := rpi.Lookup("tcp")
	if !ok || f().Name() != "tcp" {
		t.Fatal("not registered")
	}
}

func TestFrames(t *testing.T) {
	sizes := []int{0, 1, 8, 1000, smallMax, smallMax + 1, 16 << 10, 64 << 10, 128 << 10, rpi.MaxFrame, rpi.MaxData}
	for _, host := range []string{"", "127.0.0.1", "::1"} {
		t.Run("host="+host, func(t *testing.T) {
			w := newWorld(t, 2, func(e *rpi.Env) { e.Host = host })
			defer w.Close()
			for from := range 2 {
				held := 0
				for i, n := range sizes {
					head := eager(i, n)
					if n > rpi.MaxFrame {
						head.Kind = rpi.Data
					}
					if w.Send(from, 1-from, head, pattern(i, n), rpi.Ref(i+1), false) == rpi.Held {
						held++
					}
				}
				w.Until("all arrived", func() bool { return len(w.S[1-from].Got[from]) == len(sizes) })
				for i, n := range sizes {
					check(t, w.S[1-from].Got[from][i], i, n)
				}
				w.Until("all given back", func() bool { return len(w.S[from].Returned) == held })
			}
			if a, b := len(w.M[0].conns), len(w.M[1].conns); a != 1 || b != 1 {
				t.Fatalf("%d and %d connections for one pair", a, b)
			}
		})
	}
}

func TestControlFramesHaveNoPayload(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	kinds := []rpi.Kind{rpi.RTS, rpi.CTS, rpi.Direct, rpi.Ack, rpi.Poison}
	for _, k := range kinds {
		w.Send(0, 1, rpi.Header{Kind: k, Len: 1 << 40, Req: 3, Off: 1 << 50}, nil, 0, false)
	}
	w.Until("all arrived", func() bool { return len(w.S[1].Got[0]) == len(kinds) })
	for i, k := range kinds {
		if f := w.S[1].Got[0][i]; f.Kind != k || f.Len != 1<<40 || f.Off != 1<<50 || len(f.Payload) != 0 {
			t.Fatalf("%+v", f)
		}
	}
}

// A payload's bytes beyond the buffer that Begin returned are dropped, and the next frame
// begins where it should.
func TestTruncated(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	w.S[1].Keep = func(h *rpi.Header) int { return h.PayloadLen() / 3 }
	sizes := []int{9, 2000, 9000, 100000, 7, 250000, 300}
	for i, n := range sizes {
		w.Send(0, 1, eager(i, n), pattern(i, n), rpi.Ref(i+1), i%2 == 0)
	}
	w.Until("all arrived", func() bool { return len(w.S[1].Got[0]) == len(sizes) })
	for i, n := range sizes {
		f := w.S[1].Got[0][i]
		if string(f.Payload) != string(pattern(i, n)[:n/3]) {
			t.Fatalf("frame %d", i)
		}
	}
}

func TestBatchWaitsForFlush(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	w.Connect(0, 1)
	for i := range 100 {
		h := eager(i, 8)
		if w.M[0].Send(1, &h, pattern(i, 8), 0, true) != rpi.Taken {
			t.Fatal("not taken")
		}
	}
	for range 100 {
		w.M[1].Poll()
	}
	if n := len(w.S[1].Got[0]); n != 0 {
		t.Fatalf("%d frames left before Flush", n)
	}
	if w.M[0].Arm() {
		t.Fatal("Arm allows to wait with bytes held back")
	}
	if !w.M[0].Flush() || !w.M[0].Arm() {
		t.Fatal("a hundred small frames do not fit into a socket")
	}
	w.Until("all arrived", func() bool { return len(w.S[1].Got[0]) == 100 })
	for i, f := range w.S[1].Got[0] {
		check(t, f, i, 8)
	}
}

// Flooding a peer that does not read ends in Full with little memory used, and
// in a Writable when it reads again.
func TestFlood(t *testing.T) {
	for _, n := range []int{8, 4000, 200000} {
		w := newWorld(t, 2)
		w.Connect(0, 1)
		count, room := 0, 1 // one Writable from connecting
		for {
			h := eager(count, n)
			if w.M[0].Send(1, &h, pattern(count, n), rpi.Ref(count+1), false) != rpi.Full {
				if count++; count > 1e6 {
					t.Fatal("never full")
				}
				continue
			}
			// The kernel moves bytes on in its own time, which makes room.
			if all := w.M[0].Flush(); w.S[0].Room[1] == room {
				if all {
					t.Fatal("all has left, and nobody was told of the room")
				}
				break
			}
			if room++; w.S[0].Room[1] != room {
				t.Fatalf("%d times writable, having been full %d times", w.S[0].Room[1]-1, room-1)
			}
		}
		if c := w.M[0].conns[0]; len(c.out.buf) > 4*batchMax {
			t.Fatalf("output buffer grew to %d bytes", len(c.out.buf))
		}
		w.Until("writable", func() bool { return w.S[0].Room[1] == room+1 })
		w.Until("all arrived", func() bool { return len(w.S[1].Got[0]) == count })
		for i, f := range w.S[1].Got[0] {
			check(t, f, i, n)
		}
		w.Until("flushed", w.M[0].Flush)
		w.Close()
	}
}

// Frames arrive whole and in order, and every held payload is given back once. The
// frames are of all sizes, with and without a reference, batched or not. The sockets
// are so small that every read and write is a short one.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		small := rapid.Bool().Draw(rt, "small sockets")
		n := rapid.IntRange(2, 6).Draw(rt, "ranks")
		size := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 20000), rapid.IntRange(0, rpi.MaxFrame))
		var change []func(*rpi.Env)
		if small {
			change = append(change, tiny)
			size = rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 20000))
		}
		w := newWorld(t, n, change...)
		defer w.Close()
		type want struct{ tag, n int }
		sent := make([][][]want, n)
		for i := range sent {
			sent[i] = make([][]want, n)
		}
		held := make([]map[rpi.Ref]bool, n)
		for i := range held {
			held[i] = map[rpi.Ref]bool{}
		}
		for i := range rapid.IntRange(1, 60).Draw(rt, "frames") {
			from := rapid.IntRange(0, n-1).Draw(rt, "from")
			to := (from + rapid.IntRange(1, n-1).Draw(rt, "to")) % n
			k := size.Draw(rt, "size")
			ref := rpi.Ref(i + 1)
			if rapid.IntRange(0, 3).Draw(rt, "no reference") == 0 {
				ref = 0
			}
			h := eager(i, k)
			switch w.M[from].Send(to, &h, pattern(i, k), ref, rapid.Bool().Draw(rt, "more")) {
			case rpi.Held:
				if ref == 0 {
					rt.Fatal("held without a reference")
				}
				held[from][ref] = true
				fallthrough
			case rpi.Taken:
				sent[from][to] = append(sent[from][to], want{i, k})
			}
			for range rapid.IntRange(0, 3).Draw(rt, "polls") {
				w.M[rapid.IntRange(0, n-1).Draw(rt, "who")].Poll()
			}
		}
		w.Until("all arrived", func() bool {
			for from := range n {
				for to := range n {
					if len(w.S[to].Got[from]) < len(sent[from][to]) {
						return false
					}
				}
				if len(w.S[from].Returned) < len(held[from]) {
					return false
				}
			}
			return true
		})
		for from := range n {
			for to := range n {
				for i, f := range w.S[to].Got[from] {
					check(t, f, sent[from][to][i].tag, sent[from][to][i].n)
				}
			}
			for ref, times := range w.S[from].Returned {
				if times != 1 || !held[from][ref] {
					rt.Fatalf("Sent(%d) %d times, held %v", ref, times, held[from][ref])
				}
			}
		}
	})
}

// Upcalls may send: a pipeline of held frames that refills itself from Sent.
func TestSendFromUpcalls(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	const frames, n = 40, 200000
	next := 0
	fill := func(int) {
		for next < frames {
			h := eager(next, n)
			if w.M[0].Send(1, &h, pattern(next, n), rpi.Ref(next+1), false) == rpi.Full {
				return
			}
			next++
		}
	}
	w.S[0].OnSent = func(peer int, _ rpi.Ref) { fill(peer) }
	w.S[0].OnWritable = fill
	echoed := 0
	w.S[1].OnEnd = func(int) {
		h := rpi.Header{Kind: rpi.Ack, Req: uint64(echoed)}
		if w.M[1].Send(0, &h, nil, 0, false) == rpi.Taken {
			echoed++
		}
	}
	fill(1)
	w.Until("all arrived", func() bool { return len(w.S[1].Got[0]) == frames && len(w.S[0].Got[1]) == frames })
	for i, f := range w.S[1].Got[0] {
		check(t, f, i, n)
	}
	if echoed != frames {
		t.Fatalf("%d acks", echoed)
	}
}

// With many peers epoll says who is ready; nobody is forgotten.
func TestManyPeers(t *testing.T) {
	const n = 20
	w := newWorld(t, n)
	defer w.Close()
	for round := range 3 {
		for i := range n {
			for j := range n {
				if i != j {
					w.Send(i, j, eager(round, 100*round+i), pattern(round, 100*round+i), 0, true)
				}
			}
		}
	}
	w.Until("all arrived", func() bool {
		for i := range n {
			for j := range n {
				if i != j && len(w.S[j].Got[i]) < 3 {
					return false
				}
			}
		}
		return true
	})
	for i := range n {
		if len(w.M[i].conns) != n-1 {
			t.Fatalf("rank %d has %d connections", i, len(w.M[i].conns))
		}
		for j := range n {
			for round, f := range w.S[j].Got[i] {
				check(t, f, round, 100*round+i)
			}
		}
	}
}

func TestNoAllocation(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	w.Connect(0, 1)
	w.Connect(1, 0)
	d := &discard{buf: make([]byte, rpi.MaxFrame)}
	for _, m := range w.M {
		m.env.Sink = d
	}
	for _, n := range []int{8, smallMax, 200000} {
		p := make([]byte, n)
		h := eager(1, n)
		allocs := testing.AllocsPerRun(200, func() {
			d.ended = 0
			for _, more := range []bool{true, true, false} {
				for w.M[0].Send(1, &h, p, 1, more) == rpi.Full {
					w.Poll()
				}
			}
			for d.ended < 3 {
				w.Poll()
			}
		})
		if allocs > 0 {
			t.Errorf("%d bytes: %v allocations", n, allocs)
		}
	}
}

// discard is a sink that looks at nothing.
type discard struct {
	buf   []byte
	ended int
}

func (d *discard) Begin(_ int, h *rpi.Header) ([]byte, error) { return d.buf[:h.PayloadLen()], nil }
func (d *discard) End(int)                                    { d.ended++ }
func (d *discard) Sent(int, rpi.Ref)                          {}
func (d *discard) Writable(int)                               {}
func (d *discard) Down(int, error)                            {}

func (d *discard) Deliver(peer int, h *rpi.Header, payload []byte) error {
	dst, err := d.Begin(peer, h)
	if err != nil {
		return err
	}
	copy(dst, payload)
	d.End(peer)
	return nil
}

func TestPeerCloses(t *testing.T) {
	w := newWorld(t, 3)
	defer w.Close()
	w.Connect(0, 1)
	w.Connect(0, 2)
	w.Send(1, 0, eager(1, 50000), pattern(1, 50000), 1, false)
	w.M[1].Flush()
	w.M[1].Close()
	w.M[1] = w.M[2] // not polled any more
	w.Until("down", func() bool { return len(w.S[0].Downs[1]) > 0 })
	w.Poll()
	err := w.S[0].Downs[1][0]
	if len(w.S[0].Downs[1]) != 1 || !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "rank 1") {
		t.Fatalf("downs %v", w.S[0].Downs[1])
	}
	check(t, w.S[0].Got[1][0], 1, 50000) // what came before is not lost
	h := eager(0, 0)
	if w.M[0].Send(1, &h, nil, 0, false) != rpi.Full || w.M[0].attempts != 0 {
		t.Fatal("a peer that is down is tried again")
	}
	w.Send(0, 2, eager(3, 10), pattern(3, 10), 0, false)
	w.Until("others live on", func() bool { return len(w.S[2].Got[0]) == 1 })
}

// A peer that vanishes with unread bytes resets the connection; writing finds
// it first. Down comes once, from Poll, and payloads are not touched after.
func TestReset(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	w.Connect(0, 1)
	for i := range 3 {
		w.Send(0, 1, eager(i, 200000), pattern(i, 200000), rpi.Ref(i+1), false)
	}
	w.M[1].Close()
	for i := range 20 {
		h := eager(i, 200000)
		w.M[0].Send(1, &h, pattern(i, 200000), rpi.Ref(100+i), false)
	}
	if len(w.S[0].Downs) != 0 {
		t.Fatal("Down from within Send")
	}
	w.M[1] = w.M[0]
	w.Until("down", func() bool { return len(w.S[0].Downs[1]) > 0 })
	w.Poll()
	if len(w.S[0].Downs[1]) != 1 {
		t.Fatalf("downs %v", w.S[0].Downs[1])
	}
	if !w.M[0].Flush() || !w.M[0].Quiet() {
		t.Fatal("frames of a dead peer keep the module busy")
	}
}

// The same with an idle socket: the write itself fails.
func TestWriteToDeadPeer(t *testing.T) {
	for _, n := range []int{8, 100000} {
		w := newWorld(t, 2)
		w.Connect(0, 1)
		w.M[1].Close()
		w.M[1] = New() // nobody
		for r := rpi.Taken; r != rpi.Full; {
			h := eager(1, n)
			r = w.M[0].Send(1, &h, pattern(1, n), 0, false)
		}
		if w.M[0].Arm() || w.M[0].Quiet() || len(w.S[0].Downs) != 0 {
			t.Fatal("a Down is owed")
		}
		w.M[0].Poll()
		w.M[0].Poll()
		if len(w.S[0].Downs[1]) != 1 || !w.M[0].Quiet() {
			t.Fatalf("downs %v", w.S[0].Downs[1])
		}
		w.M[0].Close()
	}
}

func TestPeerDiesWithinFrame(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	w.Connect(0, 1)
	var h [rpi.HeaderSize]byte
	head := eager(1, 1000)
	head.Encode(h[:])
	unix.Write(w.M[1].conns[0].fd, append(h[:], 1, 2, 3))
	w.M[1].Close()
	w.M[1] = w.M[0]
	w.Until("down", func() bool { return len(w.S[0].Downs[1]) > 0 })
	if err := w.S[0].Downs[1][0]; !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "middle") {
		t.Fatal(err)
	}
}

func TestCorruptStream(t *testing.T) {
	junk := func(w *world) { unix.Write(w.M[1].conns[0].fd, pattern(9, 100)) }
	write := func(w *world, head rpi.Header) {
		var h [rpi.HeaderSize]byte
		head.Encode(h[:])
		unix.Write(w.M[1].conns[0].fd, h[:])
	}
	long := func(w *world) { write(w, eager(1, rpi.MaxFrame+1)) }
	data := func(w *world) { write(w, rpi.Header{Kind: rpi.Data, Len: rpi.MaxData + 1}) }
	objection := errors.New("no such request")
	object := func(w *world) {
		w.S[0].Refuse = objection
		w.Send(1, 0, eager(1, 1), []byte{1}, 0, false)
	}
	for name, spoil := range map[string]func(*world){"junk": junk, "long": long, "data": data, "object": object} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			defer w.Close()
			w.Connect(0, 1)
			spoil(w)
			w.Until("down", func() bool { return len(w.S[0].Downs[1]) > 0 })
			err := w.S[0].Downs[1][0]
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "rank 1") {
				t.Fatal(err)
			}
			if name == "object" && !errors.Is(err, objection) {
				t.Fatal(err)
			}
			w.Until("the other side, too", func() bool { return len(w.S[1].Downs[0]) > 0 })
		})
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	before := descriptors(t)
	for range 3 {
		w := newWorld(t, 5)
		for i := range 5 {
			for j := range i {
				w.Send(i, j, eager(1, 100), pattern(1, 100), 0, false)
			}
		}
		h := eager(1, 1)
		w.M[0].Send(4, &h, []byte{1}, 0, false) // one that is perhaps half open
		stranger := call(t, w.Addrs[2])
		w.Poll()
		w.Close()
		unix.Close(stranger)
	}
	if after := descriptors(t); after != before {
		t.Fatalf("%d descriptors before, %d after", before, after)
	}
}

func TestRestart(t *testing.T) {
	before := descriptors(t)
	w := newWorld(t, 3)
	w.Connect(0, 1)
	w.Connect(2, 0)
	for i, m := range w.M {
		m.Quiesce()
		w.Until("quiet", m.Quiet)
		e := env(i, 3)
		e.Incarnation, e.Secret, e.Sink = 78, []byte("another"), w.S[i]
		var err error
		if w.Addrs[i], err = m.Restart(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range w.M {
		if err := m.Peers(w.Addrs); err != nil {
			t.Fatal(err)
		}
	}
	w.Connect(0, 1)
	w.Connect(1, 2)
	for i, s := range w.S {
		if len(s.Downs) > 0 {
			t.Fatalf("rank %d: %v", i, s.Downs)
		}
	}
	w.Close()
	if after := descriptors(t); after != before {
		t.Fatalf("%d descriptors before, %d after", before, after)
	}
}

func TestStartRefuses(t *testing.T) {
	for name, change := range map[string]func(*rpi.Env){
		"no secret":         func(e *rpi.Env) { e.Secret = nil },
		"rank":              func(e *rpi.Env) { e.Rank = 2 },
		"host name":         func(e *rpi.Env) { e.Host = "localhost" },
		"any host":          func(e *rpi.Env) { e.Host = "0.0.0.0" },
		"zone":              func(e *rpi.Env) { e.Host = "fe80::1%lo" },
		"not here":          func(e *rpi.Env) { e.Host = "192.0.2.1" },
		"unknown parameter": with("tcp.eagre", "1"),
		"no number":         with("tcp.eager", "64K"),
		"too large":         with("tcp.eager", "1000000"),
		"no duration":       with("tcp.connect_timeout", "7"),
	} {
		t.Run(name, func(t *testing.T) {
			before := descriptors(t)
			e := env(0, 2)
			change(&e)
			m := New()
			if _, err := m.Start(e); err == nil {
				m.Close()
				t.Fatal("started")
			} else if !strings.HasPrefix(err.Error(), "tcp: ") {
				t.Fatal(err)
			}
			if after := descriptors(t); after != before {
				t.Fatalf("%d descriptors before, %d after", before, after)
			}
		})
	}
}

func TestPeersRefuses(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	other := append([]byte(nil), w.Addrs[1]...)
	other[1] = littleEndian + bigEndian - nativeOrder
	for name, addr := range map[string][]byte{
		"byte order": other, "empty": {}, "short": w.Addrs[1][:5], "version": append([]byte{9}, w.Addrs[1][1:]...),
		"no port":    append([]byte{addressVersion, nativeOrder, 0, 0}, w.Addrs[1][4:]...),
		"no address": w.Addrs[1][:4], "anybody's": {addressVersion, nativeOrder, 1, 1, 4, 8, 0, 0, 0, 0, 0},
	} {
		if err := w.M[0].Peers([][]byte{w.Addrs[0], addr}); err == nil || !strings.Contains(err.Error(), "rank 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w.M[0].Peers(w.Addrs[:1]) == nil {
		t.Error("too few addresses")
	}
	if !w.M[0].Reaches(1) || w.M[0].Reaches(0) || w.M[0].Reaches(2) || w.M[0].Reaches(-1) {
		t.Error("Reaches")
	}
}

// Two ranks that do nothing but sleep until woken: a lost wake-up hangs the
// test. Half of the messages come from the peer, half of the wake-ups from a
// goroutine of the same process.
func TestWaitLosesNothing(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	const rounds = 2000
	var locks [2]sync.Mutex
	var asked [2]atomic.Int64 // requests from the other goroutine, by Wake
	var wg sync.WaitGroup
	for rank := range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			m, s := w.M[rank], w.S[rank]
			h := eager(0, 8)
			done, sentBack := 0, int64(0)
			for done < rounds || sentBack < rounds {
				locks[rank].Lock()
				for m.Poll() {
				}
				done = len(s.Got[1-rank])
				for sentBack < asked[rank].Load() && m.Send(1-rank, &h, pattern(0, 8), 0, false) != rpi.Full {
					sentBack++
				}
				wait := (done < rounds || sentBack < rounds) && sentBack == asked[rank].Load() || m.peer(1-rank).wanted
				wait = m.Arm() && wait
				locks[rank].Unlock()
				if wait {
					m.Wait(-1)
				}
			}
		}()
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range rounds {
				asked[rank].Add(1)
				w.M[rank].Wake()
			}
		}()
	}
	wg.Wait()
}

func TestWaitReturns(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	m := w.M[0]
	m.Wait(0)
	m.Wait(time.Microsecond)
	for range 3 { // a Wake before Wait, coalesced
		m.Wake()
		m.Wake()
		m.Wait(-1)
		m.Poll()
	}
	done := make(chan bool)
	go func() { m.Wait(-1); close(done) }()
	m.Wake()
	<-done
	m.Poll()
	// Data that arrived while nobody waited.
	w.Connect(1, 0)
	w.Send(1, 0, eager(1, 8), pattern(1, 8), 0, false)
	m.Wait(-1)
	if m.Arm() {
		t.Fatal("Arm allows to wait although Wait has learned something")
	}
	w.Until("arrived", func() bool { return len(w.S[0].Got[1]) == 1 })
	// Close gets the waiter out.
	done = make(chan bool)
	for m.Poll() {
	}
	go func() { m.Wait(-1); m.Wait(-1); close(done) }()
	m.Close()
	<-done
}
