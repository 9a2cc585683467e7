package engine_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
)

const ctx = 0x42

// must returns the request of a call that must not fail.
func must(t testing.TB) func(r engine.Request, err error) engine.Request {
	return func(r engine.Request, err error) engine.Request {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// ended tests a request that must be complete.
func ended(t testing.TB, e *engine.Engine, r engine.Request) (engine.Status, error) {
	t.Helper()
	st, ok, err := e.Test(r)
	if !ok {
		t.Fatalf("not complete: %v", e.Pending())
	}
	return st, err
}

// pattern returns n bytes in which neither a shift nor a swap goes unseen.
func pattern(n, seed int) []byte {
	p := make([]byte, n)
	for i := range min(n, 4093) { // a prime: no piece of a message looks like another
		p[i] = byte(i*7 + i>>8 + seed)
	}
	for done := 4093; done < n; done *= 2 {
		copy(p[done:], p[:done])
	}
	return p
}

// variants are networks that treat frames differently.
var variants = []struct {
	name string
	set  func(*fakeNet)
}{
	{"plain", func(*fakeNet) {}},
	{"hold", func(f *fakeNet) { f.hold = true }},
	{"full", func(f *fakeNet) { f.window = 1 }},
	{"split", func(f *fakeNet) { f.split = true }},
	{"direct", func(f *fakeNet) { f.direct = true }},
	{"fragile", func(f *fakeNet) { f.direct, f.fragile = true, 1 }},
	{"all", func(f *fakeNet) { f.hold, f.window, f.split, f.direct, f.fragile = true, 2, true, true, 2 }},
	{"dual", func(f *fakeNet) { f.direct, f.dual = true, true }},
	{"dual, reads fail", func(f *fakeNet) { f.direct, f.dual, f.blind = true, true, 1 }},
	{"dual, writes fail", func(f *fakeNet) { f.direct, f.dual, f.fragile = true, true, 1 }},
	{"dual, all", func(f *fakeNet) {
		f.hold, f.window, f.split, f.direct, f.dual, f.fragile, f.blind = true, 1, true, true, true, 3, 2
	}},
}

func eachVariant(t *testing.T, n int, test func(t *testing.T, f *fakeNet, e []*engine.Engine)) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			f := newFakeNet(t, n)
			v.set(f)
			test(t, f, f.engines())
		})
	}
}

// Every size travels, whether the receive comes first or the message.
func TestSizes(t *testing.T) {
	eachVariant(t, 2, func(t *testing.T, f *fakeNet, e []*engine.Engine) {
		for _, size := range []int{0, 1, 63, 64, 65, 1 << 10, 1<<10 + 1, rpi.MaxFrame, rpi.MaxFrame + 1, rpi.MaxData, 3<<20 + 5} {
			for _, early := range []bool{true, false} {
				for _, mode := range []engine.SendMode{engine.Standard, engine.Synchronous} {
					checkTransfer(t, e, size, early, mode)
				}
			}
		}
		if f.direct && f.fragile < 0 && f.writes == 0 {
			t.Error("nothing was written directly")
		}
		if f.dual && f.reads == 0 {
			t.Error("nothing was read directly")
		}
		checkQuiet(t, f, e)
	})
}

func checkTransfer(t *testing.T, e []*engine.Engine, size int, early bool, mode engine.SendMode) {
	t.Helper()
	out, in := pattern(size, size), make([]byte, size+3)
	var rr engine.Request
	if early {
		rr = must(t)(e[1].Irecv(0, ctx, 9, bytesType, in))
	}
	sr := must(t)(e[0].Isend(1, ctx, 9, bytesType, out, mode))
	settle(e)
	if !early {
		if mode == engine.Synchronous && e[0].Done(sr) {
			t.Fatalf("synchronous send of %d bytes is over before it was received", size)
		}
		rr = must(t)(e[1].Irecv(0, ctx, 9, bytesType, in))
	}
	drive(t, e, func() bool { return e[0].Done(sr) && e[1].Done(rr) })
	if _, err := ended(t, e[0], sr); err != nil {
		t.Fatal(err)
	}
	st, err := ended(t, e[1], rr)
	if err != nil || st != (engine.Status{Source: 0, Tag: 9, Bytes: size, Type: bytesType.ID}) {
		t.Fatal(st, err)
	}
	if !bytes.Equal(in[:size], out) || in[size] != 0 {
		t.Fatalf("%d bytes arrived changed", size)
	}
}

// checkQuiet finds whatever was left behind.
func checkQuiet(t *testing.T, f *fakeNet, e []*engine.Engine) {
	t.Helper()
	settle(e)
	checkNothingLeft(t, e)
	for i := range e {
		if n := len(f.modules[i].published); n != 0 {
			t.Errorf("rank %d: %d buffers still published", i, n)
		}
	}
}

// checkNothingLeft finds operations not waited for and bytes not accounted for,
// of engines in which nobody is.
func checkNothingLeft(t *testing.T, e []*engine.Engine) {
	t.Helper()
	for i := range e {
		if left := e[i].Pending(); len(left) != 0 {
			t.Errorf("rank %d: left %v", i, left)
		}
		for k := range e {
			if sent, got := e[i].Sent()[k], e[k].Received()[i]; sent != got {
				t.Errorf("%d sent %d bytes to %d, which received %d", i, sent, k, got)
			}
		}
	}
}

// Messages of one source keep their order whatever their lengths.
func TestNonOvertaking(t *testing.T) {
	eachVariant(t, 2, func(t *testing.T, f *fakeNet, e []*engine.Engine) {
		sizes := []int{8, 5000, 0, 2 << 20, 64, 1 << 10, 300 << 10, 3}
		var sends, recvs []engine.Request
		for i, n := range sizes {
			sends = append(sends, must(t)(e[0].Isend(1, ctx, int32(i%2), bytesType, pattern(n, i), engine.Standard)))
		}
		for i := range sizes {
			if i == len(sizes)/2 {
				settle(e)
			}
			recvs = append(recvs, must(t)(e[1].Irecv(engine.AnySource, ctx, engine.AnyTag, nil, make([]byte, 3<<20))))
		}
		drive(t, e, func() bool {
			for _, r := range append(recvs, sends...) {
				if !e[0].Done(r) { // the phase is read; progress is everybody's
					return false
				}
			}
			return true
		})
		for i, r := range recvs {
			if st, err := ended(t, e[1], r); err != nil || st.Bytes != sizes[i] || st.Tag != i%2 {
				t.Errorf("receive %d: %+v %v, want %d bytes", i, st, err, sizes[i])
			}
		}
		for _, r := range sends {
			ended(t, e[0], r)
		}
		checkQuiet(t, f, e)
	})
}

func TestTruncateAndType(t *testing.T) {
	eachVariant(t, 2, func(t *testing.T, f *fakeNet, e []*engine.Engine) {
		for _, size := range []int{100, 1 << 10, 1 << 20} {
			for _, early := range []bool{true, false} {
				for _, typ := range []*engine.Type{bytesType, int32Type} {
					checkBad(t, e, size, early, typ)
				}
			}
		}
		checkQuiet(t, f, e)
	})
}

func checkBad(t *testing.T, e []*engine.Engine, size int, early bool, typ *engine.Type) {
	t.Helper()
	out, in := pattern(size, 1), make([]byte, size)
	room := size / 2
	post := func() engine.Request { return must(t)(e[1].Irecv(0, ctx, 1, typ, in[:room])) }
	var rr engine.Request
	if early {
		rr = post()
	}
	sr := must(t)(e[0].Isend(1, ctx, 1, bytesType, out, engine.Standard))
	settle(e)
	if !early {
		rr = post()
	}
	drive(t, e, func() bool { return e[0].Done(sr) && e[1].Done(rr) })
	if _, err := ended(t, e[0], sr); err != nil {
		t.Fatal(err)
	}
	st, err := ended(t, e[1], rr)
	want, kept := engine.ErrTruncate, room
	if typ != bytesType {
		want, kept = engine.ErrType, 0
	}
	if !errors.Is(err, want) || st.Bytes != size || st.Source != 0 {
		t.Fatal(st, err)
	}
	if !bytes.Equal(in[:kept], out[:kept]) || bytes.Count(in[kept:], []byte{0}) != size-kept {
		t.Fatalf("%d bytes, room for %d: wrong bytes delivered", size, room)
	}
}

func TestArguments(t *testing.T) {
	e := newFakeNet(t, 2).engines()
	for _, c := range []struct {
		name string
		want error
		call func() error
	}{
		{"rank", engine.ErrRank, func() error { return e[0].Send(2, ctx, 0, bytesType, nil, engine.Standard, nil) }},
		{"wildcard destination", engine.ErrRank, func() error { return e[0].Send(engine.AnySource, ctx, 0, bytesType, nil, engine.Standard, nil) }},
		{"tag", engine.ErrTag, func() error { return e[0].Send(1, ctx, -1, bytesType, nil, engine.Standard, nil) }},
		{"source", engine.ErrRank, func() error { _, err := e[0].Recv(-3, ctx, 0, bytesType, nil, nil); return err }},
		{"receive tag", engine.ErrTag, func() error { _, err := e[0].Irecv(1, ctx, -2, bytesType, nil); return err }},
		{"probe", engine.ErrRank, func() error { _, _, err := e[0].Iprobe(7, ctx, 0); return err }},
		{"cancel a send", engine.ErrRequest, func() error {
			r := must(t)(e[0].Isend(0, ctx, 0, bytesType, nil, engine.Synchronous))
			return e[0].Cancel(r)
		}},
	} {
		if err := c.call(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestNullRankAndInactive(t *testing.T) {
	e := newFakeNet(t, 1).engines()[0]
	if err := e.Send(engine.ProcNull, ctx, 3, bytesType, []byte{1}, engine.Synchronous, nil); err != nil {
		t.Error(err)
	}
	null := engine.Status{Source: engine.ProcNull, Tag: engine.AnyTag}
	if st, err := e.Recv(engine.ProcNull, ctx, 3, bytesType, nil, nil); err != nil || st != null {
		t.Error(st, err)
	}
	m, st, ok, err := e.Improbe(engine.ProcNull, ctx, 3)
	if !ok || err != nil || st != null {
		t.Error(st, ok, err)
	}
	if st, err := e.Wait(must(t)(e.Imrecv(m, bytesType, nil)), nil); err != nil || st != null {
		t.Error(st, err)
	}
	if st, err := e.Wait(engine.Request{}, nil); err != nil || st.Source != engine.AnySource || st.Bytes != 0 {
		t.Error(st, err)
	}
	if i, err := e.WaitAny([]engine.Request{{}, {}}, nil); i != -1 || err != nil {
		t.Error(i, err)
	}
}

func TestStaleHandles(t *testing.T) {
	e := newFakeNet(t, 1).engines()[0]
	r := must(t)(e.Isend(0, ctx, 1, bytesType, []byte{5}, engine.Standard))
	if _, err := e.Wait(r, nil); err != nil {
		t.Fatal(err)
	}
	other := must(t)(e.Irecv(0, ctx, 2, bytesType, nil)) // most likely in the same place
	if _, err := e.Wait(r, nil); !errors.Is(err, engine.ErrRequest) {
		t.Error("Wait:", err)
	}
	if _, _, err := e.Test(r); !errors.Is(err, engine.ErrRequest) {
		t.Error("Test:", err)
	}
	if err := e.Cancel(r); !errors.Is(err, engine.ErrRequest) {
		t.Error("Cancel:", err)
	}
	if i, err := e.WaitAny([]engine.Request{r, other}, nil); i != 0 || !errors.Is(err, engine.ErrRequest) {
		t.Error("WaitAny:", i, err)
	}
	if e.Done(other) {
		t.Error("the other request was touched")
	}
}

func TestCancel(t *testing.T) {
	f := newFakeNet(t, 2)
	f.split = true
	e := f.engines()
	r := must(t)(e[1].Irecv(0, ctx, 1, bytesType, make([]byte, 8)))
	if err := e[1].Cancel(r); err != nil {
		t.Fatal(err)
	}
	if _, err := ended(t, e[1], r); !errors.Is(err, engine.ErrCanceled) {
		t.Fatal(err)
	}
	// A message that has begun to arrive is not canceled any more.
	in := make([]byte, 8)
	r = must(t)(e[1].Irecv(0, ctx, 1, bytesType, in))
	sr := must(t)(e[0].Isend(1, ctx, 1, bytesType, pattern(8, 3), engine.Standard))
	e[1].Progress() // Begin without End
	if err := e[1].Cancel(r); err != nil {
		t.Fatal(err)
	}
	e[1].Progress()
	if _, err := ended(t, e[1], r); err != nil || !bytes.Equal(in, pattern(8, 3)) {
		t.Fatal(err)
	}
	ended(t, e[0], sr)
	checkQuiet(t, f, e)
}

// A receive that is posted while an unexpected payload arrives gets it.
func TestPostedWhileArriving(t *testing.T) {
	f := newFakeNet(t, 2)
	f.split = true
	e := f.engines()
	ended(t, e[0], must(t)(e[0].Isend(1, ctx, 1, bytesType, pattern(500, 3), engine.Standard)))
	e[1].Progress()
	in := make([]byte, 500)
	r := must(t)(e[1].Irecv(engine.AnySource, ctx, engine.AnyTag, bytesType, in))
	e[1].Progress()
	if _, err := ended(t, e[1], r); err != nil || !bytes.Equal(in, pattern(500, 3)) {
		t.Fatal(err)
	}
	checkQuiet(t, f, e)
}

func TestProbe(t *testing.T) {
	eachVariant(t, 2, func(t *testing.T, f *fakeNet, e []*engine.Engine) {
		for _, size := range []int{10, 70 << 10} {
			if _, ok, err := e[1].Iprobe(0, ctx, 4); ok || err != nil {
				t.Fatal(ok, err)
			}
			s1 := must(t)(e[0].Isend(1, ctx, 4, bytesType, pattern(size, 1), engine.Standard))
			s2 := must(t)(e[0].Isend(1, ctx, 4, bytesType, pattern(size, 2), engine.Standard))
			settle(e)
			want := engine.Status{Source: 0, Tag: 4, Bytes: size, Type: bytesType.ID}
			if st, err := e[1].Probe(engine.AnySource, ctx, engine.AnyTag, nil); err != nil || st != want {
				t.Fatal(st, err)
			}
			m, st, err := e[1].Mprobe(engine.AnySource, ctx, 4, nil)
			if err != nil || st != want {
				t.Fatal(st, err)
			}
			in := [2][]byte{make([]byte, size), make([]byte, size)}
			r2 := must(t)(e[1].Irecv(0, ctx, 4, bytesType, in[1]))
			r1 := must(t)(e[1].Imrecv(m, bytesType, in[0]))
			if _, err := e[1].Imrecv(m, bytesType, in[0]); !errors.Is(err, engine.ErrRequest) {
				t.Fatal("message received twice:", err)
			}
			drive(t, e, func() bool { return e[1].Done(r1) && e[1].Done(r2) && e[0].Done(s1) && e[0].Done(s2) })
			for i, r := range []engine.Request{r1, r2} {
				if _, err := ended(t, e[1], r); err != nil || !bytes.Equal(in[i], pattern(size, i+1)) {
					t.Fatal(i, err)
				}
			}
			ended(t, e[0], s1)
			ended(t, e[0], s2)
		}
		checkQuiet(t, f, e)
	})
}

func TestSelf(t *testing.T) {
	f := newFakeNet(t, 1)
	e := f.engines()
	for _, size := range []int{0, 5, 64 << 10, 64<<10 + 1, 5 << 20} {
		for _, early := range []bool{true, false} {
			for _, mode := range []engine.SendMode{engine.Standard, engine.Synchronous} {
				in := make([]byte, size)
				var rr engine.Request
				if early {
					rr = must(t)(e[0].Irecv(0, ctx, 1, bytesType, in))
				}
				sr := must(t)(e[0].Isend(0, ctx, 1, bytesType, pattern(size, 4), mode))
				if !early {
					if done := e[0].Done(sr); done != (mode == engine.Standard && size <= 64<<10) {
						t.Fatalf("%d bytes, mode %d: done %v before the receive", size, mode, done)
					}
					if m, _, ok, err := e[0].Improbe(0, ctx, 1); !ok || err != nil {
						t.Fatal(ok, err)
					} else {
						rr = must(t)(e[0].Imrecv(m, bytesType, in))
					}
				}
				if _, err := ended(t, e[0], rr); err != nil || !bytes.Equal(in, pattern(size, 4)) {
					t.Fatal(err)
				}
				ended(t, e[0], sr)
			}
		}
	}
	checkQuiet(t, f, e)
}

// Small messages: the first goes at once, the next may wait until a flush.
func TestBatching(t *testing.T) {
	f := newFakeNet(t, 3)
	e := f.engines()
	m := f.modules[0]
	send := func(dst, n int) {
		t.Helper()
		if err := e[0].Send(dst, ctx, 0, bytesType, make([]byte, n), engine.Standard, nil); err != nil {
			t.Fatal(err)
		}
	}
	send(1, 8)
	send(1, 8)
	send(2, 8)
	send(1, 1<<10)
	flushed := m.flushed
	e[0].Progress()
	send(1, 8)
	want := []bool{false, true, false, true, false}
	for i := range want {
		if m.more[i] != want[i] {
			t.Fatalf("more: %v, want %v", m.more, want)
		}
	}
	if m.flushed != flushed+1 {
		t.Fatalf("%d flushes", m.flushed-flushed)
	}
}

func TestPeerDown(t *testing.T) {
	f := newFakeNet(t, 3)
	f.direct = true
	e := f.engines()
	big := make([]byte, 1<<20)
	arrived := must(t)(e[1].Isend(0, ctx, 1, bytesType, []byte{7}, engine.Standard))
	announced := must(t)(e[1].Isend(0, ctx, 2, bytesType, big, engine.Standard))
	settle(e)
	recv := must(t)(e[0].Irecv(1, ctx, 5, bytesType, nil))
	any := must(t)(e[0].Irecv(engine.AnySource, ctx, 6, bytesType, nil))
	send := must(t)(e[0].Isend(1, ctx, 7, bytesType, big, engine.Standard))
	ssend := must(t)(e[0].Isend(1, ctx, 7, bytesType, nil, engine.Synchronous))
	half := must(t)(e[0].Irecv(1, ctx, 2, bytesType, big)) // go-ahead out
	f.modules[0].sink.Down(1, errors.New("cable cut"))
	e[0].Progress()
	for i, r := range []engine.Request{recv, send, ssend, half} {
		if _, err := ended(t, e[0], r); !errors.Is(err, engine.ErrPeerFailed) || !strings.Contains(err.Error(), "cable cut") {
			t.Error(i, err)
		}
	}
	if e[0].Done(any) {
		t.Error("a receive that others can satisfy has ended")
	}
	if len(f.modules[0].published) != 0 {
		t.Error("buffer still published")
	}
	if err := e[0].Send(1, ctx, 0, bytesType, nil, engine.Standard, nil); !errors.Is(err, engine.ErrPeerFailed) {
		t.Error(err)
	}
	if _, err := e[0].Recv(1, ctx, 0, bytesType, nil, nil); !errors.Is(err, engine.ErrPeerFailed) {
		t.Error(err)
	}
	if st, err := e[0].Recv(1, ctx, 1, bytesType, make([]byte, 1), nil); err != nil || st.Bytes != 1 {
		t.Error("what had arrived is lost:", st, err)
	}
	_, _ = arrived, announced
}

func TestPoison(t *testing.T) {
	for _, kind := range []engine.SendMode{engine.Standard, engine.Synchronous} {
		f := newFakeNet(t, 3)
		e := f.engines()
		var pending [3][]engine.Request
		for i := range e {
			for _, n := range []int{4, 1 << 20} {
				if n > 4 || kind == engine.Synchronous {
					pending[i] = append(pending[i],
						must(t)(e[i].Isend((i+1)%3, ctx, 1, bytesType, make([]byte, n), kind)),
						must(t)(e[i].Isend(i, ctx, 1, bytesType, make([]byte, n), kind)))
				}
			}
			pending[i] = append(pending[i], must(t)(e[i].Irecv(engine.AnySource, ctx, 2, bytesType, nil)))
		}
		settle(e)
		e[1].Poison(ctx, []int{0, 1, 2}, engine.ErrDeadline)
		settle(e)
		for i := range e {
			for k, r := range pending[i] {
				if _, err := ended(t, e[i], r); !errors.Is(err, engine.ErrPoisoned) || errors.Is(err, engine.ErrDeadline) || i < 2 && !errors.Is(err, engine.ErrGaveUp) {
					t.Errorf("rank %d, request %d: %v", i, k, err)
				}
			}
			if _, _, err := e[i].Iprobe(0, ctx, 2); !errors.Is(err, engine.ErrPoisoned) {
				t.Error(err)
			}
			if _, err := e[i].Isend(0, ctx+1, 1, bytesType, nil, engine.Standard); err != nil {
				t.Error("another context:", err)
			}
			e[i].FreeContext(ctx)
			if _, ok, err := e[i].Iprobe(engine.AnySource, ctx, engine.AnyTag); ok || err != nil {
				t.Error("after FreeContext:", ok, err)
			}
		}
	}
}

// A context that has failed on one rank alone fails on the others once they are told.
func TestPoisonToldLater(t *testing.T) {
	e := newFakeNet(t, 2).engines()
	r := must(t)(e[0].Irecv(1, ctx, 2, bytesType, nil))
	e[1].Poison(ctx, nil, engine.ErrType)
	settle(e)
	if e[0].Poisoned(ctx) != nil {
		t.Error("told before")
	}
	e[1].Poison(ctx, []int{0, 1}, engine.ErrType)
	settle(e)
	if _, err := ended(t, e[0], r); !errors.Is(err, engine.ErrPoisoned) || !errors.Is(err, engine.ErrType) {
		t.Error(err)
	}
}

// Many operations at once, completed in any order.
func TestOddOrders(t *testing.T) {
	eachVariant(t, 4, func(t *testing.T, f *fakeNet, e []*engine.Engine) {
		rnd := rand.New(rand.NewPCG(1, 2))
		type op struct {
			e  *engine.Engine
			r  engine.Request
			in []byte
			id int
		}
		var ops []op
		n := 200
		if testing.Short() {
			n = 60
		}
		for i := range n {
			src, dst := rnd.IntN(4), rnd.IntN(4)
			size := []int{0, 9, 900, 9000, 900_000}[rnd.IntN(5)]
			send := func() {
				r := must(t)(e[src].Isend(dst, ctx, int32(i), bytesType, pattern(size, i), engine.SendMode(i%2)))
				ops = append(ops, op{e: e[src], r: r})
			}
			recv := func() {
				in := make([]byte, size)
				from := []int{src, engine.AnySource}[i/2%2]
				ops = append(ops, op{e[dst], must(t)(e[dst].Irecv(from, ctx, int32(i), bytesType, in)), in, i})
			}
			if rnd.IntN(2) == 0 {
				send, recv = recv, send
			}
			send()
			for range rnd.IntN(3) {
				e[rnd.IntN(4)].Progress()
			}
			recv()
		}
		rnd.Shuffle(len(ops), func(i, k int) { ops[i], ops[k] = ops[k], ops[i] })
		for _, o := range ops {
			drive(t, e, func() bool { return o.e.Done(o.r) })
			if _, err := ended(t, o.e, o.r); err != nil || o.in != nil && !bytes.Equal(o.in, pattern(len(o.in), o.id)) {
				t.Fatal(o.id, err)
			}
		}
		checkQuiet(t, f, e)
	})
}

func TestWaitAnyIsFair(t *testing.T) {
	e := newFakeNet(t, 1).engines()[0]
	rs := make([]engine.Request, 4)
	turns := make([]int, len(rs))
	for i := range rs {
		rs[i] = must(t)(e.Isend(engine.ProcNull, ctx, 0, bytesType, nil, engine.Standard))
	}
	for range 100 {
		i, err := e.WaitAny(rs, nil)
		if err != nil {
			t.Fatal(err)
		}
		turns[i]++
		ended(t, e, rs[i])
		rs[i] = must(t)(e.Isend(engine.ProcNull, ctx, 0, bytesType, nil, engine.Standard))
	}
	for i, n := range turns {
		if n != 25 {
			t.Errorf("request %d was chosen %d times of 100", i, n)
		}
	}
}

// Messages beyond 4 GiB are announced and cut by 64-bit arithmetic.
func TestHugeLengths(t *testing.T) {
	f := newFakeNet(t, 2)
	e := f.engines()
	if err := e[0].Send(1, ctx, 0, bytesType, nil, engine.Standard, nil); err != nil {
		t.Fatal(err)
	}
	const huge = 5 << 30
	f.modules[0].wire[1] = append(f.modules[0].wire[1], &fakeFrame{h: rpi.Header{
		Kind: rpi.RTS, Tag: 3, Type: bytesType.ID, Ctx: ctx, Len: huge, Req: 1 << 32,
	}})
	st, err := e[0].Probe(1, ctx, 3, nil)
	if err != nil || st.Bytes != huge {
		t.Fatal(st, err)
	}
	r := must(t)(e[0].Irecv(1, ctx, 3, bytesType, make([]byte, 10)))
	e[0].Progress()
	cts := f.modules[1].wire[0][1].h
	if cts.Kind != rpi.CTS || cts.Len != 10 {
		t.Fatalf("%+v", cts)
	}
	f.modules[0].wire[1] = append(f.modules[0].wire[1], &fakeFrame{
		h: rpi.Header{Kind: rpi.Data, Req: cts.Off, Len: 10}, payload: pattern(10, 0),
	})
	e[0].Progress()
	if st, err := ended(t, e[0], r); !errors.Is(err, engine.ErrTruncate) || st.Bytes != huge {
		t.Fatal(st, err)
	}
}

// Frames that cannot be end the connection, not the program.
func TestCorruptFrames(t *testing.T) {
	for name, h := range map[string]rpi.Header{
		"kind":          {Kind: 77},
		"data":          {Kind: rpi.Data, Req: 1<<32 | 5, Len: 3},
		"data overflow": {Kind: rpi.Data, Req: 99 << 32, Off: 1 << 63, Len: 1 << 63},
		"long":          {Kind: rpi.Eager, Len: rpi.MaxFrame + 1},
	} {
		f := newFakeNet(t, 2)
		e := f.engines()
		r := must(t)(e[0].Irecv(1, ctx, 0, bytesType, nil))
		f.modules[0].wire[1] = append(f.modules[0].wire[1], &fakeFrame{h: h})
		settle(e)
		if _, err := ended(t, e[0], r); !errors.Is(err, engine.ErrPeerFailed) {
			t.Error(name, err)
		}
	}
}
