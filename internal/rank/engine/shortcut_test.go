package engine_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// fakeShort is a fake that is a shared.Shortcut.
type fakeShort struct {
	*fake
	opening             bool // what was sent last may be added to
	sent, taken, looked int
	opens               [3]shared.Open // by peer; of what was sent by the shortcut, with more
	bodies              [3][shared.OpenMax]byte
	words               [3]uint64
	meanwhile           func()           // called where nothing has come
	part                func(buf []byte) // called, once, to put a part of a message there
}

func (m *fakeShort) SendShort(peer int, ctx uint64, tag int32, typ uint32, payload []byte, more bool) bool {
	if len(payload) > 8 {
		return false
	}
	m.sent++
	o := &m.opens[peer]
	if *o = (shared.Open{}); m.opening && more && len(payload) > 0 {
		*o = shared.Open{
			Size: len(payload) + 1, Ctx: ctx, Tag: tag, Type: typ,
			Body: &m.bodies[peer], Left: uint32(40/len(payload)) - 1,
			Word: &m.words[peer], Value: 100, Each: 2, Last: 64,
		}
	}
	h := rpi.Header{Kind: rpi.Eager, Ctx: ctx, Tag: tag, Type: typ, Len: uint64(len(payload))}
	return m.Send(peer, &h, payload, 0, more) == rpi.Taken
}

func (m *fakeShort) Open(peer int) *shared.Open { return &m.opens[peer] }

func (m *fakeShort) TakeShort(peer int, ctx uint64, tag int32, typ uint32, buf []byte) int {
	m.looked++
	if part := m.part; part != nil {
		m.part = nil
		part(buf)
		return shared.TakePart
	}
	for from, wire := range m.wire {
		if len(wire) != 0 && from != peer {
			return shared.TakeOther
		}
	}
	if len(m.wire[peer]) == 0 {
		if m.meanwhile != nil {
			m.meanwhile()
		}
		return shared.TakeNone
	}
	f := m.wire[peer][0]
	if f.h.Kind != rpi.Eager || f.h.Ctx != ctx || f.h.Tag != tag || f.h.Type != typ || len(f.payload) > len(buf) {
		return shared.TakeOther
	}
	m.wire[peer] = m.wire[peer][1:]
	m.taken++
	return copy(buf, f.payload)
}

// shortcuts returns the engines of n ranks over modules with a shortcut.
func shortcuts(t *testing.T, n int) (*fakeNet, []*fakeShort, []*engine.Engine) {
	net := newFakeNet(t, n)
	var short []*fakeShort
	var modules []rpi.Module
	for _, m := range net.modules {
		short = append(short, &fakeShort{fake: m})
		modules = append(modules, short[len(short)-1])
	}
	e := connect(t, modules, true)
	t.Cleanup(func() {
		for _, e := range e {
			e.Close()
		}
	})
	return net, short, e
}

// A receive finds the same by the shortcut as without: order, length, type,
// errors, and the counters that bookmarks consist of.
func TestShortcut(t *testing.T) {
	_, short, e := shortcuts(t, 3)
	send := func(from int, tag int32, typ *engine.Type, text string) {
		t.Helper()
		if err := e[from].Send(1, 5, tag, typ, []byte(text), engine.Standard, nil); err != nil {
			t.Fatal(err)
		}
	}
	recv := func(src int, tag int32, typ *engine.Type, room, short int, taken *fakeShort) (string, engine.Status, error) {
		t.Helper()
		before, buf := taken.taken, make([]byte, room)
		st, err := e[1].Recv(src, 5, tag, typ, buf, nil)
		if n := taken.taken - before; n != short {
			t.Errorf("%d messages went by the shortcut, not %d", n, short)
		}
		return string(buf[:min(st.Bytes, room)]), st, err
	}
	a, b := &engine.Type{ID: 1, Size: 1, Name: "a"}, &engine.Type{ID: 2, Size: 1, Name: "b"}
	want := func(text string, st engine.Status, err error) func(string, engine.Status, error) {
		return func(gotText string, got engine.Status, gotErr error) {
			t.Helper()
			if gotText != text || got != st || !errors.Is(gotErr, err) {
				t.Errorf("%q %v %v, not %q %v %v", gotText, got, gotErr, text, st, err)
			}
		}
	}
	send(0, 3, a, "one")
	want("one", engine.Status{Source: 0, Tag: 3, Bytes: 3, Type: 1}, nil)(recv(0, 3, a, 8, 1, short[1]))
	send(0, 3, a, "two")
	want("two", engine.Status{Source: 0, Tag: 3, Bytes: 3, Type: 1}, nil)(recv(engine.AnySource, 3, a, 8, 0, short[1]))
	send(0, 3, a, "three")
	want("three", engine.Status{Source: 0, Tag: 3, Bytes: 5, Type: 1}, nil)(recv(0, engine.AnyTag, a, 8, 0, short[1]))
	send(0, 3, a, "four")
	want("four", engine.Status{Source: 0, Tag: 3, Bytes: 4, Type: 1}, nil)(recv(0, 3, nil, 8, 0, short[1]))
	send(0, 3, a, "five")
	want("", engine.Status{Source: 0, Tag: 3, Bytes: 4, Type: 1}, engine.ErrType)(recv(0, 3, b, 0, 0, short[1]))
	send(0, 3, a, "six")
	want("si", engine.Status{Source: 0, Tag: 3, Bytes: 3, Type: 1}, engine.ErrTruncate)(recv(0, 3, a, 2, 0, short[1]))
	send(0, 3, a, "seven is long")
	want("seven is long", engine.Status{Source: 0, Tag: 3, Bytes: 13, Type: 1}, nil)(recv(0, 3, a, 20, 1, short[1]))

	send(0, 4, a, "eight") // is overtaken by what has another tag, and found later
	send(0, 3, a, "nine")
	want("nine", engine.Status{Source: 0, Tag: 3, Bytes: 4, Type: 1}, nil)(recv(0, 3, a, 8, 0, short[1]))
	send(0, 4, a, "ten")
	want("eight", engine.Status{Source: 0, Tag: 4, Bytes: 5, Type: 1}, nil)(recv(0, 4, a, 8, 0, short[1]))
	want("ten", engine.Status{Source: 0, Tag: 4, Bytes: 3, Type: 1}, nil)(recv(0, 4, a, 8, 1, short[1]))

	first := make([]byte, 8) // a receive that was posted before has the first message
	r, err := e[1].Irecv(0, 5, 3, a, first)
	if err != nil {
		t.Fatal(err)
	}
	send(0, 3, a, "eleven")
	send(0, 3, a, "twelve")
	want("twelve", engine.Status{Source: 0, Tag: 3, Bytes: 6, Type: 1}, nil)(recv(0, 3, a, 8, 0, short[1]))
	if _, err := e[1].Wait(r, nil); err != nil || string(first[:6]) != "eleven" {
		t.Errorf("%q %v", first, err)
	}
	if sent, got := e[0].Sent(), e[1].Received(); sent[1] != got[0] || sent[1] == 0 {
		t.Errorf("sent %v, received %v", sent, got)
	}
	if short[0].sent == 0 {
		t.Error("nothing was sent by the shortcut")
	}
}

// A rank that takes message after message from one peer serves the others, too.
func TestShortcutIsFair(t *testing.T) {
	net, short, e := shortcuts(t, 3)
	typ := &engine.Type{ID: 1, Size: 1, Name: "a"}
	if err := e[2].Send(1, 5, 9, typ, []byte("x"), engine.Standard, nil); err != nil {
		t.Fatal(err)
	}
	held := net.modules[1].wire[2]
	for i := range 1000 {
		e[0].Send(1, 5, 3, typ, []byte("y"), engine.Standard, nil)
		if i < 10 { // rank 2's arrives later
			net.modules[1].wire[2] = nil
		} else if i == 10 {
			net.modules[1].wire[2] = held
		}
		if _, err := e[1].Recv(0, 5, 3, typ, make([]byte, 8), nil); err != nil {
			t.Fatal(err)
		}
		if i > 10 && len(net.modules[1].wire[2]) == 0 {
			break
		}
	}
	if short[1].taken == 0 || len(net.modules[1].wire[2]) != 0 {
		t.Errorf("%d by the shortcut, %d of another rank left", short[1].taken, len(net.modules[1].wire[2]))
	}
}

// If nothing comes, the wait goes on as others do: it lets other callers in, and ends with its view.
func TestShortcutGivesUp(t *testing.T) {
	_, short, e := shortcuts(t, 2)
	typ := &engine.Type{ID: 1, Size: 1, Name: "a"}
	closed := make(chan struct{})
	short[1].meanwhile = func() {
		short[1].meanwhile = nil
		go func() {
			e[1].CloseGate()
			e[0].Send(1, 5, 3, typ, []byte("late"), engine.Standard, nil)
			e[1].OpenGate()
			close(closed)
		}()
	}
	buf := make([]byte, 8)
	st, err := e[1].Recv(0, 5, 3, typ, buf, nil)
	if <-closed; err != nil || string(buf[:st.Bytes]) != "late" {
		t.Errorf("%q %v", buf, err)
	}
}

// A receive that has a part of its message in its buffer is not withdrawn: that would be
// a buffer that is neither as it was nor a message.
func TestShortcutFinishes(t *testing.T) {
	_, short, e := shortcuts(t, 2)
	typ := &engine.Type{ID: 1, Size: 1, Name: "a"}
	ctx, cancel := context.WithCancel(context.Background())
	v := engine.NewView(ctx, e[1])
	defer v.Stop()
	e[0].Send(1, 5, 3, typ, []byte("whole"), engine.Standard, nil)
	late := short[1].wire[0]
	short[1].wire[0] = nil
	short[1].part = func(buf []byte) {
		copy(buf, "who")
		for cancel(); v.Err() == nil; {
			runtime.Gosched()
		}
		short[1].wire[0] = late
	}
	buf := []byte("........was.")
	st, err := e[1].Recv(0, 5, 3, typ, buf, v)
	if err != nil || st.Bytes != 5 || string(buf) != "whole...was." {
		t.Errorf("%q %+v %v", buf, st, err)
	}
	if _, err := e[1].Recv(0, 5, 3, typ, buf, v); !errors.Is(err, engine.ErrDeadline) {
		t.Errorf("the next one: %v", err)
	}
}

// Where ranks share CPUs a receive looks once by the shortcut before it yields.
func TestShortcutYields(t *testing.T) {
	_, short, e := shortcuts(t, 2)
	typ := &engine.Type{ID: 1, Size: 1, Name: "a"}
	for local, most := range map[int]int{1: 512, 10_000: 1} {
		e[1].SetLocal(local)
		e[0].Send(1, 5, 3, typ, []byte("x"), engine.Standard, nil)
		late := short[1].wire[0]
		short[1].wire[0], short[1].looked = nil, 0
		short[1].meanwhile = func() {
			if short[1].looked == most { // the last of its looks
				short[1].wire[0] = late
			}
		}
		if _, err := e[1].Recv(0, 5, 3, typ, make([]byte, 8), nil); err != nil || short[1].looked != most {
			t.Errorf("%d ranks on the machine: %d looks, %v", local, short[1].looked, err)
		}
	}
}

// Only a short message that may go at once goes by the shortcut.
func TestSendStaysBehind(t *testing.T) {
	typ := &engine.Type{ID: 1, Size: 1, Name: "a"}
	soon := func(e *engine.Engine) *engine.View {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		t.Cleanup(cancel)
		v := engine.NewView(ctx, e)
		t.Cleanup(func() { v.Close() })
		return v
	}
	for name, c := range map[string]struct {
		tag  int32
		mode engine.SendMode
		want error
		sent int // frames in all
		do   func(net *fakeNet, e *engine.Engine)
	}{
		"behind another": {3, engine.Standard, engine.ErrDeadline, 1, func(net *fakeNet, e *engine.Engine) {
			net.window = 1
			for range 2 { // the second finds no room
				e.Isend(1, 5, 3, typ, []byte("before"), engine.Standard)
			}
			net.modules[1].wire[0] = nil // there is room again, but the engine was not told
		}},
		"behind another that may go": {3, engine.Standard, engine.ErrDeadline, 2, func(net *fakeNet, e *engine.Engine) {
			net.window = 1
			for range 2 {
				e.Isend(1, 5, 3, typ, []byte("before"), engine.Standard)
			}
			net.modules[1].wire[0] = nil
			net.modules[0].sink.Writable(1)
		}},
		"synchronous":  {3, engine.Synchronous, engine.ErrDeadline, 1, func(*fakeNet, *engine.Engine) {}},
		"no tag":       {-5, engine.Standard, engine.ErrTag, 0, func(*fakeNet, *engine.Engine) {}},
		"not too late": {3, engine.Standard, nil, 1, func(*fakeNet, *engine.Engine) {}},
	} {
		t.Run(name, func(t *testing.T) {
			net, _, e := shortcuts(t, 2)
			c.do(net, e[0])
			if err := e[0].Send(1, 5, c.tag, typ, []byte("a letter"), c.mode, soon(e[0])); !errors.Is(err, c.want) {
				t.Errorf("%v, not %v", err, c.want)
			}
			if n := len(net.modules[0].more); n != c.sent {
				t.Errorf("%d frames were sent, not %d", n, c.sent)
			}
		})
	}
	t.Run("a receive too late", func(t *testing.T) {
		_, _, e := shortcuts(t, 2)
		v := soon(e[1])
		for v.Err() == nil { // it fires by itself
			runtime.Gosched()
		}
		e[0].Send(1, 5, 3, typ, []byte("a letter"), engine.Standard, nil)
		if _, err := e[1].Recv(0, 5, 3, typ, make([]byte, 8), v); !errors.Is(err, engine.ErrDeadline) {
			t.Error("received:", err)
		}
	})
}

// Messages of any length are added to what is open, by Send and by Isend.
func TestOthersAreAdded(t *testing.T) {
	for _, text := range []string{"x", "four", "twelve bytes", "twenty bytes of text"} {
		_, short, e := shortcuts(t, 2)
		short[0].opening = true
		typ := &engine.Type{ID: 1, Size: 1, Name: "a"}
		short[0].opens[1] = shared.Open{
			Size: len(text) + 1, Ctx: 5, Tag: 3, Type: 1, Body: &short[0].bodies[1], Left: 2, Word: &short[0].words[1], Each: 2,
		}
		if err := e[0].Send(1, 5, 3, typ, []byte(text), engine.Standard, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := e[0].Isend(1, 5, 3, typ, []byte(text), engine.Standard); err != nil {
			t.Fatal(err)
		}
		if got := string(short[0].bodies[1][:2*len(text)]); short[0].sent != 0 || got != text+text || short[0].words[1] != 4 {
			t.Errorf("%q is open, word %d, %d were sent otherwise", got, short[0].words[1], short[0].sent)
		}
	}
}
