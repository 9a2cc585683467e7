package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// matching is two lists, searched from the front, beside an engine that gets the same
// calls: whatever way a receive takes, it gets the same message.
type matching struct {
	t      *rapid.T
	e      []*engine.Engine
	posted []*wanted
	kept   []arrived
	sent   uint64
}

type wanted struct {
	h        engine.Request
	src      int
	tag      int32
	buf      []byte
	got      uint64 // what was sent to it
	canceled bool
}

type arrived struct {
	src  int
	tag  int32
	text uint64
}

func (w *wanted) fits(src int, tag int32) bool {
	return (w.src == src || w.src == engine.AnySource) && (w.tag == tag || w.tag == engine.AnyTag)
}

// receive posts a receive, of rarely more than one kind so that some stand in one queue.
func (x *matching) receive() *wanted {
	w := &wanted{src: rapid.SampledFrom([]int{1, 1, 1, 2, engine.AnySource, engine.AnySource}).Draw(x.t, "source"), buf: make([]byte, 8)}
	w.tag = rapid.SampledFrom([]int32{0, 0, 0, 0, 1, engine.AnyTag}).Draw(x.t, "tag")
	var err error
	if w.h, err = x.e[0].Irecv(w.src, 5, w.tag, nil, w.buf); err != nil {
		x.t.Fatal(err)
	}
	if i := slices.IndexFunc(x.kept, func(a arrived) bool { return w.fits(a.src, a.tag) }); i >= 0 {
		w.got = x.kept[i].text
		x.kept = slices.Delete(x.kept, i, i+1)
		x.wait(w)
		return w
	}
	x.posted = append(x.posted, w)
	return w
}

func (x *matching) send() {
	src := rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(x.t, "from")
	tag := rapid.SampledFrom([]int32{0, 0, 0, 1}).Draw(x.t, "under")
	x.sent++
	if err := x.e[src].Send(0, 5, tag, nil, binary.LittleEndian.AppendUint64(nil, x.sent), engine.Standard, nil); err != nil {
		x.t.Fatal(err)
	}
	x.e[0].Progress()
	if i := slices.IndexFunc(x.posted, func(w *wanted) bool { return w.fits(src, tag) }); i >= 0 {
		w := x.posted[i]
		w.got = x.sent
		x.posted = slices.Delete(x.posted, i, i+1)
		x.wait(w)
		return
	}
	x.kept = append(x.kept, arrived{src, tag, x.sent})
}

func (x *matching) cancel() {
	if len(x.posted) == 0 {
		return
	}
	i := rapid.IntRange(0, len(x.posted)-1).Draw(x.t, "which")
	w := x.posted[i]
	x.posted = slices.Delete(x.posted, i, i+1)
	if err := x.e[0].Cancel(w.h); err != nil {
		x.t.Fatal(err)
	}
	w.canceled = true
	x.wait(w)
}

// wait ends a receive that is over.
func (x *matching) wait(w *wanted) {
	if !x.e[0].Done(w.h) {
		x.t.Fatalf("a receive (%d, %d) has no message, not %d", w.src, w.tag, w.got)
	}
	_, err := x.e[0].Wait(w.h, nil)
	if w.canceled {
		if !errors.Is(err, engine.ErrCanceled) {
			x.t.Fatal("canceled:", err)
		}
		return
	}
	if got := binary.LittleEndian.Uint64(w.buf); err != nil || got != w.got {
		x.t.Fatalf("a receive (%d, %d) has got message %d, not %d: %v", w.src, w.tag, got, w.got, err)
	}
}

func (x *matching) check() {
	var open []string
	for _, w := range x.posted {
		if x.e[0].Done(w.h) {
			x.t.Fatalf("a receive (%d, %d) is over", w.src, w.tag)
		}
		open = append(open, fmt.Sprint(w.src, w.tag))
	}
	if n := len(x.e[0].Pending()); n != len(open) {
		x.t.Fatalf("%d receives are pending, not %v", n, open)
	}
}

func TestReceivesMatch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := &matching{t: rt, e: newFakeNet(t, 3).engines()}
		defer func() {
			for _, e := range x.e {
				e.Close()
			}
		}()
		for range rapid.IntRange(0, 3).Draw(rt, "first") {
			x.receive()
		}
		rt.Repeat(map[string]func(*rapid.T){
			"receive": func(rt *rapid.T) { x.t = rt; x.receive() },
			"send":    func(rt *rapid.T) { x.t = rt; x.send() },
			"cancel":  func(rt *rapid.T) { x.t = rt; x.cancel() },
			"":        func(rt *rapid.T) { x.t = rt; x.check() },
		})
	})
}

// There is no end to the receives that wait in one queue.
func TestManyReceives(t *testing.T) {
	e := newFakeNet(t, 2).engines()
	for round := range 3 {
		rs := make([]engine.Request, 100<<round)
		bufs := make([][1]byte, len(rs))
		for i := range rs {
			rs[i] = must(t)(e[0].Irecv(1, 5, 0, nil, bufs[i][:]))
		}
		for i := range rs {
			if err := e[1].Send(0, 5, 0, nil, []byte{byte(i)}, engine.Standard, nil); err != nil {
				t.Fatal(err)
			}
		}
		for i, r := range rs {
			if _, err := e[0].Wait(r, nil); err != nil || bufs[i][0] != byte(i) {
				t.Fatal(round, i, bufs[i], err)
			}
		}
	}
}

// Receives that are like one before them are not earlier than others that were posted
// before them.
func TestReceivesInOrder(t *testing.T) {
	for name, other := range map[string]struct {
		src int
		tag int32
	}{"any source": {engine.AnySource, 0}, "any tag": {1, engine.AnyTag}, "both": {engine.AnySource, engine.AnyTag}} {
		t.Run(name, func(t *testing.T) {
			e := newFakeNet(t, 3).engines()
			var bufs [5][1]byte
			var rs [5]engine.Request
			for i := range rs {
				src, tag := 1, int32(0)
				if i == 2 {
					src, tag = other.src, other.tag
				}
				rs[i] = must(t)(e[0].Irecv(src, 5, tag, nil, bufs[i][:]))
			}
			for i, r := range rs {
				if err := e[1].Send(0, 5, 0, nil, []byte{byte(i)}, engine.Standard, nil); err != nil {
					t.Fatal(err)
				}
				if e[0].Progress(); !e[0].Done(r) || bufs[i][0] != byte(i) {
					t.Fatalf("message %d went to another receive than that one", i)
				}
			}
		})
	}
}

// Receives that differ only in their contexts get the messages of their own ones.
func TestReceivesOfContexts(t *testing.T) {
	e := newFakeNet(t, 2).engines()
	contexts := []uint64{5, 5, 6, 5, 6}
	bufs := make([][1]byte, len(contexts))
	for i, ctx := range contexts {
		must(t)(e[0].Irecv(1, ctx, 0, nil, bufs[i][:]))
	}
	for i := range contexts {
		i = len(contexts) - 1 - i
		if err := e[1].Send(0, contexts[i], 0, nil, []byte{byte(contexts[i])}, engine.Standard, nil); err != nil {
			t.Fatal(err)
		}
	}
	for e[0].Progress() {
	}
	for i, ctx := range contexts {
		if bufs[i][0] != byte(ctx) {
			t.Errorf("receive %d of context %d has got a message of context %d", i, ctx, bufs[i][0])
		}
	}
}

// A receive that is posted while its message arrives gets it, also if it is like one
// before it.
func TestReceiveAmidstItsMessage(t *testing.T) {
	net := newFakeNet(t, 2)
	e := net.engines()
	var rs [3]engine.Request
	var bufs [3][8]byte
	post := func(i int) { rs[i] = must(t)(e[0].Irecv(1, 5, 0, nil, bufs[i][:])) }
	send := func(text string) {
		t.Helper()
		if err := e[1].Send(0, 5, 0, nil, []byte(text), engine.Standard, nil); err != nil {
			t.Fatal(err)
		}
	}
	post(0)
	post(1) // which leaves a queue behind
	for range 2 {
		send("a letter")
	}
	for e[0].Progress() {
	}
	net.split = true
	send("a letter")
	e[0].Progress() // its first part
	if net.modules[0].begun[1] == nil {
		t.Fatal("it has arrived")
	}
	post(2)
	for e[0].Progress() {
	}
	for i, r := range rs {
		if !e[0].Done(r) || string(bufs[i][:]) != "a letter" {
			t.Errorf("receive %d: %q", i, bufs[i])
		}
	}
}

// A receive like many before it is refused, or fails, once something speaks against it.
func TestReceiveTooLate(t *testing.T) {
	reason := errors.New("for a reason")
	for name, c := range map[string]struct {
		do   func(m *fake, e *engine.Engine)
		want error
	}{
		"poisoned": {func(_ *fake, e *engine.Engine) { e.Poison(5, nil, reason) }, engine.ErrPoisoned},
		"aborted":  {func(_ *fake, e *engine.Engine) { e.Abort(reason) }, engine.ErrAborted},
		"peer failed": {func(m *fake, e *engine.Engine) {
			m.sink.Down(1, reason)
			e.Progress()
		}, engine.ErrPeerFailed},
		"closed": {func(_ *fake, e *engine.Engine) { e.Close() }, engine.ErrAborted},
	} {
		t.Run(name, func(t *testing.T) {
			net := newFakeNet(t, 2)
			e := net.engines()
			var rs [5]engine.Request
			for i := range rs {
				rs[i] = must(t)(e[0].Irecv(1, 5, 0, nil, make([]byte, 1)))
			}
			for _, r := range rs {
				if err := e[0].Cancel(r); err != nil {
					t.Fatal(err)
				}
			}
			c.do(net.modules[0], e[0])
			r, err := e[0].Irecv(1, 5, 0, nil, make([]byte, 1))
			if err == nil && e[0].Done(r) {
				_, err = e[0].Wait(r, nil)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, not %v", err, c.want)
			}
		})
	}
}
