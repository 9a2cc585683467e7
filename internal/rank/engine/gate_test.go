//go:build !gorun_nocr

package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"pgregory.net/rapid"
)

// cut closes all gates and drains, as a checkpoint does, and returns when what
// each rank has sent to each other was received there. Then the gates are open
// again if keep is false.
func cut(t testing.TB, e []*engine.Engine) {
	t.Helper()
	for _, e := range e {
		e.CloseGate()
		e.Quiesce()
	}
	for _, e := range e {
		for !e.Quiet() {
			e.Step()
		}
	}
	sent := make([][]uint64, len(e))
	for i := range e {
		sent[i] = slices.Clone(e[i].Sent()) // the bookmarks
	}
	for i := range e {
		drain(t, e[i], i, sent)
	}
	for i := range e {
		if !slices.Equal(sent[i], e[i].Sent()) {
			t.Fatalf("rank %d sent something after its bookmark: %d, was %d", i, e[i].Sent(), sent[i])
		}
		got := slices.Clone(e[i].Received())
		if e[i].Step(); !slices.Equal(got, e[i].Received()) {
			t.Fatalf("rank %d received something after the drain", i)
		}
	}
}

func drain(t testing.TB, e *engine.Engine, me int, sent [][]uint64) {
	t.Helper()
	for tries := 0; ; tries++ {
		missing := false
		for from := range sent {
			switch got, want := e.Received()[from], sent[from][me]; {
			case got > want:
				t.Fatalf("rank %d received %d bytes of rank %d, which sent %d", me, got, from, want)
			case got < want:
				missing = true
			}
		}
		if !missing {
			return
		}
		if !e.Step() && tries > 1_000_000 {
			t.Fatalf("rank %d: received %d, sent to it %d", me, e.Received(), sent)
		}
	}
}

func open(e []*engine.Engine) {
	for _, e := range e {
		e.OpenGate()
	}
}

// The gate closes at any moment of a traffic of many goroutines; the counters
// are exact each time, and no message is lost or doubled.
func TestGateRacesWithSenders(t *testing.T) {
	cutAmidTraffic(t, 1500, func([]*engine.Engine) {})
}

// cutAmidTraffic makes each rank of a job send to all, and cuts until they are done. At each cut it calls f.
func cutAmidTraffic(t *testing.T, each int, f func([]*engine.Engine)) {
	const ranks = 3
	e := memJob(t, ranks)
	var wg sync.WaitGroup
	for me := range ranks {
		for to := range ranks {
			wg.Go(func() { sendNumbered(t, e[me], to, each) })
			wg.Go(func() { receiveInOrder(t, e[me], to, each) })
		}
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for cuts := 0; ; cuts++ {
		cut(t, e)
		f(e)
		open(e)
		select {
		case <-done:
			t.Log(cuts, "cuts")
			checkNothingLeft(t, e)
			return
		default:
			runtime.Gosched()
		}
	}
}

func receiveInOrder(t *testing.T, e *engine.Engine, from, n int) {
	buf := make([]byte, 40_000)
	for i := range n {
		st, err := e.Recv(from, uint64(from), engine.AnyTag, bytesType, buf, nil)
		if err != nil || st.Tag != i%3 || int(buf[0])|int(buf[1])<<8 != i {
			t.Errorf("message %d of rank %d: %+v %v", i, from, st, err)
			return
		}
	}
}

// Callers that wait when the gate closes go on with the same call; those that
// come while it is closed wait for it.
func TestGateAndWaiters(t *testing.T) {
	e := memJob(t, 2)
	results := make(chan error, 3)
	go func() { _, err := e[1].Recv(0, ctx, 1, bytesType, make([]byte, 1), nil); results <- err }()
	go func() { _, err := e[1].Probe(0, ctx, 2, nil); results <- err }()
	waitUntil(func() bool { return len(e[1].Pending()) == 2 })
	cut(t, e)
	entered := make(chan struct{})
	go func() {
		close(entered)
		results <- e[1].Send(0, ctx, 3, bytesType, nil, engine.Standard, nil)
	}()
	<-entered
	for range 100 {
		e[1].WaitStep(0)
		runtime.Gosched()
	}
	if n := len(e[1].Closer().Pending()); n != 2 || e[1].Sent()[0] != 0 || len(results) != 0 {
		t.Fatal("somebody got in", n, e[1].Sent(), len(results))
	}
	open(e)
	if _, err := e[0].Recv(1, ctx, 3, bytesType, nil, nil); err != nil {
		t.Fatal(err)
	}
	for tag := range int32(2) {
		if err := e[0].Send(1, ctx, tag+1, bytesType, []byte{1}, engine.Standard, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
}

// Any traffic over any network, cut at any moment: what is accepted arrives,
// nothing else moves (the fake refuses frames after Quiesce), and all ends well
// afterwards.
func TestCutsAnywhere(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { cutTraffic(t, rt, v.set) })
		})
	}
}

func cutTraffic(t *testing.T, rt *rapid.T, set func(*fakeNet)) {
	const ranks = 3
	f := newFakeNet(t, ranks)
	set(f)
	e := connect(t, f.asModules(), true)
	defer func() {
		for _, e := range e {
			e.Close()
		}
	}()
	type op struct {
		rank int
		r    engine.Request
		in   []byte
		id   int
	}
	var ops []op
	for i := range rapid.IntRange(1, 25).Draw(rt, "steps") {
		src, dst := rapid.IntRange(0, ranks-1).Draw(rt, "src"), rapid.IntRange(0, ranks-1).Draw(rt, "dst")
		switch rapid.IntRange(0, 5).Draw(rt, "what") {
		case 0, 1:
			size := rapid.SampledFrom([]int{0, 8, 1000, 1025, 300 << 10, 2500 << 10}).Draw(rt, "size")
			in := make([]byte, size)
			mode := engine.SendMode(rapid.IntRange(0, 1).Draw(rt, "mode"))
			ops = append(ops, op{src, must(t)(e[src].Isend(dst, ctx, int32(i), bytesType, pattern(size, i), mode)), nil, i})
			if rapid.Bool().Draw(rt, "late") {
				e[dst].Progress()
				e[dst].Progress()
			}
			ops = append(ops, op{dst, must(t)(e[dst].Irecv(src, ctx, int32(i), bytesType, in)), in, i})
		case 2, 3:
			for range rapid.IntRange(1, 6).Draw(rt, "polls") {
				e[src].Progress()
			}
		default:
			cut(t, e)
			open(e)
		}
	}
	for _, o := range ops {
		drive(t, e, func() bool { return e[o.rank].Done(o.r) })
		if _, err := ended(t, e[o.rank], o.r); err != nil || o.in != nil && !bytes.Equal(o.in, pattern(len(o.in), o.id)) {
			rt.Fatal(o.id, err)
		}
	}
	checkQuiet(t, f, e)
}

// A frame that arrives while the gate is closed is answered when it opens.
func TestRepliesWait(t *testing.T) {
	f := newFakeNet(t, 2)
	e := f.engines()
	sync := must(t)(e[0].Isend(1, ctx, 1, bytesType, nil, engine.Synchronous))
	big := must(t)(e[0].Isend(1, ctx, 2, bytesType, make([]byte, 1<<20), engine.Standard))
	in := make([]byte, 1<<20)
	r1 := must(t)(e[1].Irecv(0, ctx, 1, bytesType, nil))
	r2 := must(t)(e[1].Irecv(0, ctx, 2, bytesType, in))
	cut(t, e)
	if n := e[1].Sent()[0]; n != 0 {
		t.Fatalf("%d bytes of replies counted", n)
	}
	if n := len(f.modules[0].wire[1]); n != 0 {
		t.Fatalf("%d replies sent", n)
	}
	open(e)
	if n := e[1].Sent()[0]; n != 2*rpi.HeaderSize {
		t.Fatalf("%d bytes of replies counted after opening", n)
	}
	cut(t, e) // the go-ahead is in, the data has not begun
	if e[0].Sent()[1] != 2*rpi.HeaderSize {
		t.Fatal("data sent with the gate closed:", e[0].Sent())
	}
	open(e)
	drive(t, e, func() bool {
		return e[0].Done(sync) && e[0].Done(big) && e[1].Done(r1) && e[1].Done(r2)
	})
}

// A channel lost while the gate is closed is a failure only afterwards, and none
// if the modules were restarted.
func TestDownWhileClosed(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		f := newFakeNet(t, 2)
		e := f.engines()
		r := must(t)(e[0].Irecv(1, ctx, 1, bytesType, nil))
		cut(t, e)
		f.modules[0].sink.Down(1, errors.New("cut off"))
		e[0].Step()
		if pending := e[0].Closer().Pending(); len(pending) != 1 {
			t.Fatal(pending)
		}
		if restarted {
			restart(t, f, e)
		}
		open(e)
		if !restarted {
			if _, err := ended(t, e[0], r); !errors.Is(err, engine.ErrPeerFailed) {
				t.Fatal(err)
			}
			continue
		}
		if err := e[1].Send(0, ctx, 1, bytesType, nil, engine.Standard, nil); err != nil {
			t.Fatal(err)
		}
		e[0].Progress()
		if _, err := ended(t, e[0], r); err != nil {
			t.Fatal(err)
		}
	}
}

// restart gives all ranks new channels, as a process has that came back from
// its image.
func restart(t testing.TB, f *fakeNet, e []*engine.Engine) {
	t.Helper()
	addrs := make([][]byte, len(e))
	for i, m := range f.modules {
		var err error
		if addrs[i], err = m.Restart(rpi.Env{Rank: i, Size: len(e), Sink: m.sink}); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range f.modules {
		if err := m.Peers(addrs); err != nil {
			t.Fatal(err)
		}
		if err := e[i].Restarted(nil, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A half-sent message resumes after a restart, with direct writes or without,
// and with direct reads as well; the transport may be able to go on with them or
// not.
func TestHalfSentResumes(t *testing.T) {
	each := 1
	if testing.Short() {
		each = 4
	}
	for steps := 0; steps < 16; steps += each {
		for kind := range 6 {
			t.Run(fmt.Sprint(steps, kind), func(t *testing.T) {
				f := newFakeNet(t, 2)
				f.direct, f.dual, f.window = kind%3 > 0, kind%3 > 1, 1
				e := f.engines()
				in := make([]byte, 5<<20)
				sr := must(t)(e[0].Isend(1, ctx, 1, bytesType, pattern(len(in), 1), engine.Standard))
				rr := must(t)(e[1].Irecv(0, ctx, 1, bytesType, in))
				for i := range steps {
					e[i%2].Progress()
				}
				cut(t, e)
				f.direct = kind > 2
				restart(t, f, e)
				open(e)
				drive(t, e, func() bool { return e[0].Done(sr) && e[1].Done(rr) })
				if _, err := ended(t, e[1], rr); err != nil || !bytes.Equal(in, pattern(len(in), 1)) {
					t.Fatal(err)
				}
				if _, err := ended(t, e[0], sr); err != nil {
					t.Fatal(err)
				}
				checkQuiet(t, f, e)
			})
		}
	}
}

// Saved messages come back in their order, before others, and in this
// machine's byte order.
func TestSaveAndInject(t *testing.T) {
	e := newFakeNet(t, 3).engines()
	for i := range 6 {
		if err := e[i%2].Send(2, ctx, int32(i%3), int32Type, []byte{byte(i), 0, 0, 0}, engine.Standard, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := e[2].Send(2, ctx+1, 0, bytesType, make([]byte, 60<<10), engine.Standard, nil); err != nil {
		t.Fatal(err)
	}
	cut(t, e)
	saved, err := e[2].Saved()
	if err != nil || len(saved) != 7 {
		t.Fatal(saved, err)
	}
	open(e)
	again := newFakeNet(t, 3).engines()
	if err := again[0].Send(2, ctx, 0, int32Type, []byte{99, 0, 0, 0}, engine.Standard, nil); err != nil {
		t.Fatal(err)
	}
	again[2].Progress()
	swapped := *int32Type
	swapped.Swap = func(p []byte) {
		for i := 0; i+4 <= len(p); i += 4 {
			slices.Reverse(p[i : i+4])
		}
	}
	for i := range saved {
		saved[i].Foreign = true
	}
	again[2].Inject(saved)
	if n := again[2].Received()[0]; n != rpi.HeaderSize+4 {
		t.Error("injected messages are counted:", n)
	}
	in := make([]byte, 8)
	for i, want := range []byte{0, 2, 4, 99} {
		st, err := again[2].Recv(0, ctx, engine.AnyTag, &swapped, in, nil)
		at := 3 // foreign
		if want == 99 {
			at = 0
		}
		if err != nil || st.Bytes != 4 || in[at] != want {
			t.Errorf("%d: %+v %v %v", i, st, in, err)
		}
	}
	if st, err := again[2].Recv(2, ctx+1, 0, bytesType, make([]byte, 60<<10), nil); err != nil || st.Bytes != 60<<10 {
		t.Error(st, err)
	}
}

// A receive that was posted before gets an injected message.
func TestInjectToPosted(t *testing.T) {
	e := newFakeNet(t, 2).engines()[0]
	in := make([]byte, 3)
	r := must(t)(e.Irecv(engine.AnySource, ctx, 4, bytesType, in))
	e.Inject([]engine.Saved{{Ctx: ctx, Source: 1, Tag: 4, Type: bytesType.ID, Data: []byte("abc")}})
	if st, err := ended(t, e, r); err != nil || st.Source != 1 || string(in) != "abc" {
		t.Fatal(st, err)
	}
}

// A message whose sender still waits cannot be saved, and the error names it.
func TestSavedRefuses(t *testing.T) {
	for _, c := range []struct {
		size int
		mode engine.SendMode
		dst  int
	}{{1 << 20, engine.Standard, 1}, {3, engine.Synchronous, 1}, {1 << 20, engine.Standard, 0}} {
		e := newFakeNet(t, 2).engines()
		must(t)(e[0].Isend(c.dst, ctx, 5, bytesType, make([]byte, c.size), c.mode))
		cut(t, e)
		if saved, err := e[c.dst].Saved(); err == nil {
			t.Errorf("%+v: saved %v", c, saved)
		}
		open(e)
	}
}

// Closing and opening twice does nothing more; the gate is free of charge for
// whoever does not close it.
func TestGateTwice(t *testing.T) {
	e := newFakeNet(t, 1).engines()[0]
	e.OpenGate()
	e.CloseGate()
	e.CloseGate()
	if !e.GateClosed() {
		t.Error("open")
	}
	e.OpenGate()
	e.OpenGate()
	if e.GateClosed() {
		t.Error("closed")
	}
}

// The gate may close and open while goroutines come, wait and go as they like.
func TestGateOften(t *testing.T) {
	e := memJob(t, 1)[0]
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			for {
				select {
				case <-stop:
					return
				default:
				}
				r := must(t)(e.Irecv(0, ctx, int32(i), bytesType, nil))
				if rnd.IntN(3) == 0 {
					e.Done(r)
				}
				if err := e.Send(0, ctx, int32(i), bytesType, nil, engine.Standard, nil); err != nil {
					t.Error(err)
				}
				if _, err := e.Wait(r, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 300 {
		e.CloseGate()
		before := fmt.Sprint(e.Closer().Pending())
		runtime.Gosched()
		if after := fmt.Sprint(e.Closer().Pending()); after != before {
			t.Errorf("inside a closed gate: %s, then %s", before, after)
		}
		e.OpenGate()
		runtime.Gosched()
	}
	close(stop)
	wg.Wait()
}
