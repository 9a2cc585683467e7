package shm

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
	"golang.org/x/sys/unix"
)

// sizes are those at which a frame takes another way.
var sizes = []int{0, 1, 8, 39, 40, 41, 95, 96, 97, 1000, smallChunk, smallChunk + 1, 2*smallChunk + 1, 4*smallChunk + 1, largeChunk, largeChunk + 1, 100000, rpi.MaxFrame}

func TestKinds(t *testing.T) { moduletest.Kinds(t, build) }

// Frames of all kinds and sizes arrive whole and in order, in both directions.
func TestFrames(t *testing.T) {
	w := newWorld(t, 3)
	defer w.Close()
	headers := []rpi.Header{
		{Kind: rpi.RTS, Tag: 3, Type: 9, Ctx: 1 << 60, Len: 1 << 40, Req: 77},
		{Kind: rpi.RTS, Flags: rpi.FlagDirect, Len: 1 << 30, Req: 78, Off: 1<<63 + 5},
		{Kind: rpi.CTS, Flags: rpi.FlagDirect | rpi.FlagPull, Ctx: 1<<64 - 1, Len: 5, Req: 1<<64 - 1, Off: 6},
		{Kind: rpi.Ack, Req: 5}, {Kind: rpi.Fin, Req: 5, Off: 8}, {Kind: rpi.Poison, Ctx: 4, Off: 2},
		{Kind: rpi.Direct, Req: 5, Off: 1 << 20, Len: 1 << 20},
		{Kind: rpi.EagerSync, Tag: -1 << 31, Ctx: 5, Len: 8, Req: 99},
		{Kind: rpi.Data, Req: 5, Off: 1 << 41, Len: rpi.MaxData},
		{Kind: rpi.Data, Flags: rpi.FlagGone, Req: 6},
		{Kind: rpi.Eager, Tag: 1<<31 - 1, Type: 1<<32 - 1, Ctx: 1<<64 - 1, Len: 8},
	}
	for _, n := range sizes {
		headers = append(headers, eager(n, n))
	}
	for _, pair := range [][2]int{{0, 1}, {1, 0}, {2, 1}} {
		from, to := pair[0], pair[1]
		for i, h := range headers {
			w.Send(from, to, h, pattern(i, h.PayloadLen()), rpi.Ref(i+1), i%3 == 0)
		}
		w.M[from].Flush()
		w.Until("all arrived", func() bool { return len(w.S[to].Got[from]) == len(headers) })
		for i, f := range w.S[to].Got[from] {
			if f.Header != headers[i] || string(f.Payload) != string(pattern(i, len(f.Payload))) || len(f.Payload) != f.PayloadLen() {
				t.Fatalf("frame %d of rank %d: %+v, sent %+v", i, from, f.Header, headers[i])
			}
		}
	}
}

// A frame too large for the pool is Held until its last byte is in a chunk. The peer takes no
// other frame meanwhile. A frame without a name is copied aside.
func TestHeld(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	w.Connect(0, 1)
	h := rpi.Header{Kind: rpi.Data, Req: 5, Len: 100 << 10}
	p := pattern(1, rpi.MaxData)
	if r := w.M[0].Send(1, &h, p[:h.Len], 7, false); r != rpi.Taken {
		t.Fatal(r)
	}
	h.Len = rpi.MaxData
	if r := w.M[0].Send(1, &h, p, 8, false); r != rpi.Held || w.M[0].Flush() || w.M[0].Quiet() {
		t.Fatalf("a second one: %v", r)
	}
	third := eager(1, 0)
	if r := w.M[0].Send(1, &third, nil, 0, false); r != rpi.Full {
		t.Fatal(r)
	}
	w.Until("sent", func() bool { return w.S[0].Returned[8] == 1 && w.S[0].Room[1] > 0 && w.M[0].Quiet() })
	clear(p[:100])
	w.Until("arrived", func() bool { return len(w.S[1].Got[0]) == 2 })
	for _, f := range w.S[1].Got[0] {
		if string(f.Payload) != string(pattern(1, rpi.MaxData)[:len(f.Payload)]) {
			t.Error("a frame differs")
		}
	}
	p = pattern(2, rpi.MaxData)
	for range 3 {
		w.Send(0, 1, h, p, 0, false)
	}
	clear(p)
	w.Until("arrived", func() bool { return len(w.S[1].Got[0]) == 5 })
	if string(w.S[1].Got[0][4].Payload) != string(pattern(2, rpi.MaxData)) {
		t.Error("a frame without a name was sent after it was given back")
	}
}

// A sink that wants less than a frame's payload gets that much of it.
func TestPart(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	for _, n := range sizes {
		w.S[1].Keep = func(*rpi.Header) int { return n / 3 }
		w.S[1].Got[0] = nil
		w.Send(0, 1, eager(n, n), pattern(n, n), 1, false)
		w.Send(0, 1, eager(1, 0), nil, 1, false)
		w.Until("arrived", func() bool { return len(w.S[1].Got[0]) == 2 })
		if f := w.S[1].Got[0][0]; string(f.Payload) != string(pattern(n, n)[:n/3]) {
			t.Errorf("%d bytes of %d differ", len(f.Payload), n)
		}
	}
}

// A full ring refuses, is said to be writable when it is, and loses nothing. A receiver that
// sleeps is woken before.
func TestFull(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	n := 0
	for ; ; n++ {
		h := eager(n, 8)
		if w.M[0].Send(1, &h, pattern(n, 8), 1, true) == rpi.Full {
			break
		}
		if n > 1<<maxShift {
			t.Fatal("never full")
		}
	}
	if len(w.M[0].dirty) != 0 {
		t.Error("the receiver was not woken for what he is to read")
	}
	w.M[0].Poll()
	if w.S[0].Room[1] != 0 {
		t.Fatal("writable, and nothing was read")
	}
	w.Until("writable", func() bool { return w.S[0].Room[1] == 1 })
	w.Until("all arrived", func() bool { return len(w.S[1].Got[0]) == n })
	for i, f := range w.S[1].Got[0] {
		check(t, f, i, 8)
	}
}

// Rank 1 does not read, and takes all chunks of rank 0: rank 2 is served when
// rank 1 has read.
func TestPoolEmpty(t *testing.T) {
	w := newWorld(t, 3)
	defer w.Close()
	h := eager(1, 9000)
	n := 0
	for ; w.M[0].Send(1, &h, pattern(1, 9000), 1, false) != rpi.Full; n++ {
	}
	if w.M[0].Send(2, &h, pattern(1, 9000), 1, false) != rpi.Full {
		t.Fatal("there was a chunk left")
	}
	w.M[2].Poll()
	w.M[0].Poll()
	if w.S[0].Room[2] != 0 || w.M[0].Arm() == false {
		t.Fatal("writable, without a chunk")
	}
	w.M[1].Poll()
	if w.M[0].Arm() {
		t.Error("sleeps in spite of what was freed")
	}
	w.Until("writable", func() bool { return w.S[0].Room[1] == 1 && w.S[0].Room[2] == 1 })
	w.Send(0, 2, h, pattern(1, 9000), 1, false)
	w.Until("arrived", func() bool { return len(w.S[2].Got[0]) == 1 && len(w.S[1].Got[0]) == n })
}

// A rank is told of room while it arms its bell, and neither sees the other. It is woken by the
// next poll that finds nothing, or when the other is about to sleep.
func TestRoomAtLast(t *testing.T) {
	for name, rest := range map[string]func(*Module){
		"poll": func(m *Module) { m.Poll() },
		"arm":  func(m *Module) { m.Arm() },
	} {
		w := newWorld(t, 2)
		defer w.Close()
		h := eager(1, 1000)
		w.M[0].Send(1, &h, pattern(1, 1000), 0, false)
		for len(w.S[1].Got[0]) == 0 {
			w.M[1].Poll()
		}
		w.M[0].bell.arm(true)
		if rest(w.M[1]); *w.M[0].word&bellArmed != 0 {
			t.Errorf("%s: it sleeps", name)
		}
		w.M[0].bell.arm(true)
		if rest(w.M[1]); *w.M[0].word&bellArmed == 0 {
			t.Errorf("%s: woken for nothing", name)
		}
	}
}

// A sleeper is woken by a frame, by a flush of frames held back, by room for refused ones, by
// Wake, and by the end of a peer.
func TestWakes(t *testing.T) {
	for name, by := range map[string]func(w *world){
		"frame": func(w *world) { w.M[1].Send(0, &rpi.Header{Kind: rpi.Ack}, nil, 0, false) },
		"flush": func(w *world) {
			w.M[1].Send(0, &rpi.Header{Kind: rpi.Ack}, nil, 0, true)
			w.M[1].Flush()
		},
		"armed": func(w *world) {
			w.M[1].Send(0, &rpi.Header{Kind: rpi.Ack}, nil, 0, true)
			w.M[1].Arm()
		},
		"room": func(w *world) {
			for w.M[1].Poll() {
			}
		},
		"wake":  func(w *world) { w.M[0].Wake() },
		"close": func(w *world) { w.M[1].Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			defer func() { w.M[0].Close() }()
			if name != "close" {
				defer func() { w.M[1].Close() }()
			}
			w.Connect(1, 0)
			h := eager(1, 8)
			for name == "room" && w.M[0].Send(1, &h, pattern(1, 8), 1, true) != rpi.Full {
			}
			if !w.M[0].Arm() {
				t.Fatal("nothing to do, and may not sleep")
			}
			woken := make(chan struct{})
			go func() {
				w.M[0].Wait(time.Hour)
				close(woken)
			}()
			select {
			case <-woken: // by a signal, which it may
			case <-time.After(time.Millisecond): // so it sleeps, most likely
			}
			by(w)
			select {
			case <-woken:
			case <-time.After(time.Minute):
				t.Fatal("not woken")
			}
		})
	}
}

// A frame that comes between Arm and Wait, or before Arm, leaves no sleeper.
func TestNoLostWakeUp(t *testing.T) {
	w := newWorld(t, 2)
	defer w.Close()
	w.Connect(1, 0)
	w.M[1].Send(0, &rpi.Header{Kind: rpi.Ack}, nil, 0, true)
	if w.M[0].Arm() {
		t.Fatal("may sleep in spite of a frame")
	}
	w.M[0].Poll()
	if !w.M[0].Arm() {
		t.Fatal("may not sleep")
	}
	w.M[1].Send(0, &rpi.Header{Kind: rpi.Ack}, nil, 0, false)
	w.M[0].Wait(time.Hour)
	w.M[0].Poll()
	w.M[0].Wake()
	if !w.M[0].Arm() {
		t.Fatal("may not sleep")
	}
	w.M[0].Wait(time.Hour)
	if b := atomic.LoadUint32(w.M[0].word); b != 0 {
		t.Errorf("the bell is at %d", b)
	}
}

// A rank that leaves is missed once, after its last frame.
func TestPeerCloses(t *testing.T) {
	w := newWorld(t, 3)
	defer w.Close()
	for i := range 50 {
		h := eager(i, 3000)
		w.M[1].Send(0, &h, pattern(i, 3000), 0, true)
	}
	w.M[1].Close()
	w.M[1] = w.M[2]
	w.Until("missed", func() bool { return len(w.S[0].Downs[1]) > 0 && len(w.S[2].Downs[1]) > 0 })
	w.Poll()
	if downs := w.S[0].Downs[1]; len(downs) != 1 || !errors.Is(downs[0], ErrClosed) || !strings.Contains(downs[0].Error(), "rank 1") {
		t.Error(downs)
	}
	if len(w.S[0].Got[1]) != 50 {
		t.Errorf("%d of 50 frames", len(w.S[0].Got[1]))
	}
	h := eager(1, 8)
	if w.M[0].Send(1, &h, pattern(1, 8), 1, false) != rpi.Full {
		t.Error("a frame to nobody was taken")
	}
	if !w.M[0].Arm() || !w.M[0].Quiet() {
		t.Error("there is still something to do")
	}
}

// A stranger is not reached, and Unreached says why.
func TestUnreached(t *testing.T) {
	base := descriptors(t)
	for name, c := range map[string]struct {
		change func(e *rpi.Env)
		addr   func(a *address) []byte
		want   string
	}{
		"secret":      {change: func(e *rpi.Env) { e.Secret = []byte("another") }, want: "does not prove"},
		"incarnation": {change: func(e *rpi.Env) { e.Incarnation = 78 }, want: "does not prove"},
		"rank":        {change: func(e *rpi.Env) { e.Rank = 0 }, want: "does not prove"},
		"size":        {change: func(e *rpi.Env) { e.Size = 400 }, want: "its segment has"},
		"short":       {addr: func(a *address) []byte { return a.encode()[:31] }, want: "address of 31 bytes"},
		"version":     {addr: func(a *address) []byte { p := a.encode(); p[0] = 9; return p }, want: "version 9"},
		"order":       {addr: func(a *address) []byte { a.order = 3; return a.encode() }, want: "byte order"},
		"machine":     {addr: func(a *address) []byte { a.machine = "moon"; return a.encode() }, want: "another machine"},
		"nobody":      {addr: func(a *address) []byte { a.pid = 1 << 30; return a.encode() }, want: "no such file"},
		"no segment":  {addr: func(a *address) []byte { a.fd = 0; return a.encode() }, want: ""},
		"nonce":       {addr: func(a *address) []byte { a.nonce[3]++; return a.encode() }, want: "does not prove"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := New(), New()
			defer a.Close()
			defer b.Close()
			ea, eb := env(0, 3), env(1, 3)
			if c.change != nil {
				c.change(&eb)
			}
			mine, err := a.Start(ea)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := b.Start(eb)
			if err != nil {
				t.Fatal(err)
			}
			if c.addr != nil {
				their := b.addr
				theirs = c.addr(&their)
			}
			if err := a.Peers([][]byte{mine, theirs, nil}); err != nil {
				t.Fatal(err)
			}
			why := a.Unreached(1)
			if a.Reaches(1) || why == nil || !strings.Contains(why.Error(), c.want) || !strings.Contains(why.Error(), "rank 1") {
				t.Errorf("reached, or: %v", why)
			}
			if a.Reaches(2) || a.Unreached(2) != nil || a.Reaches(0) || a.Reaches(-1) || a.Reaches(3) {
				t.Error("somebody without address is reached, or a reason given")
			}
		})
	}
	if n := descriptors(t); n != base {
		t.Errorf("%d descriptors, %d before", n, base)
	}
}

func TestForgo(t *testing.T) {
	w := newWorld(t, 3)
	defer w.Close()
	w.M[0].Forgo(1)
	if w.M[0].Reaches(1) || w.M[0].Unreached(1) == nil || !w.M[0].Reaches(2) {
		t.Error("forgone, and reached")
	}
	w.M[1].Forgo(0)
	w.Send(0, 2, eager(1, 100), pattern(1, 100), 0, false)
	w.Until("arrived", func() bool { return len(w.S[2].Got[0]) == 1 })
}

func TestStartFails(t *testing.T) {
	for name, change := range map[string]func(e *rpi.Env){
		"secret": func(e *rpi.Env) { e.Secret = nil },
		"rank":   func(e *rpi.Env) { e.Rank = 2 },
		"param":  func(e *rpi.Env) { e.Params["shm.eagre"] = "1" },
		"value":  func(e *rpi.Env) { e.Params["shm.eager"] = "1000000" },
	} {
		e := env(0, 2)
		change(&e)
		if _, err := New().Start(e); err == nil || errors.Is(err, rpi.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := New()
	defer m.Close()
	if _, err := m.Start(env(0, 2)); err != nil {
		t.Fatal(err)
	}
	if err := m.Peers(nil); err == nil {
		t.Error("no addresses are enough")
	}
}

// Where the limit on files is too low for a segment, the error says so, and another
// transport takes over.
func TestFileLimit(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: pageSize, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := New().Start(env(0, 2))
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, rpi.ErrUnavailable) || !strings.Contains(err.Error(), "ulimit -f") {
		t.Error(err)
	}
}

// Nothing is left when all are closed: no descriptor, no mapping.
func TestNothingLeft(t *testing.T) {
	fds, maps := descriptors(t), mappings(t)
	w := newWorld(t, 5)
	for i := range w.M {
		w.Connect(i, (i+1)%5)
	}
	if mappings(t) == maps {
		t.Error("nothing is mapped")
	}
	w.Close()
	if n := descriptors(t); n != fds {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
	if n := mappings(t); n != maps {
		t.Errorf("%d mappings, %d before", n, maps)
	}
}

// mappings counts the segments mapped in this process.
func mappings(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "/memfd:"+segmentName)
}
