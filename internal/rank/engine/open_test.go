package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
)

// opened returns the first of three engines, which has sent a message to which others
// may be added, and a function that sends more of them.
func opened(t *testing.T) (*fakeShort, *engine.Engine, func(tag int32, text string) (engine.Request, error)) {
	t.Helper()
	_, short, e := shortcuts(t, 3)
	short[0].opening = true
	typ := &engine.Type{ID: 7, Size: 1, Name: "letter"}
	send := func(tag int32, text string) (engine.Request, error) {
		return e[0].Isend(1, 5, tag, typ, []byte(text), engine.Standard)
	}
	for range 2 { // the first goes at once
		if _, err := send(3, "a letter"); err != nil {
			t.Fatal(err)
		}
	}
	if short[0].sent != 2 || short[0].opens[1].Size == 0 {
		t.Fatal("nothing was opened")
	}
	return short[0], e[0], send
}

// A message like the one before is added to it while there is room. It is a message like any other:
// counted, complete, to be waited for once.
func TestAddToOpen(t *testing.T) {
	m, e, send := opened(t)
	before := e.Sent()[1]
	for i := range 4 {
		text := fmt.Sprint("letter ", i)
		r, err := send(3, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(m.bodies[1][8*i:][:8]); got != text || m.sent != 2 {
			t.Errorf("message %d was not added: %q", i, got)
		}
		word := uint64(100 + 2*(i+1))
		if i == 3 { // the last
			word &^= 64
		}
		if m.words[1] != word {
			t.Errorf("after message %d the word is %d, not %d", i, m.words[1], word)
		}
		if all := e.Pending(); len(all) != 3 || all[2] != all[1] || !strings.Contains(all[2], "8 bytes) complete") {
			t.Errorf("pending: %q", all)
		}
		if st, err := e.Wait(r, nil); err != nil || st != (engine.Status{}) {
			t.Errorf("message %d: %v %v", i, st, err)
		}
		if _, err := e.Wait(r, nil); !errors.Is(err, engine.ErrRequest) {
			t.Errorf("message %d waited for twice: %v", i, err)
		}
	}
	if n := e.Sent()[1] - before; n != 4*(rpi.HeaderSize+8) {
		t.Errorf("counted %d bytes", n)
	}
	if _, err := send(3, "one more"); err != nil || m.sent != 3 {
		t.Errorf("there was no room: %v, %d", err, m.sent)
	}
}

// There is no end to the sends that nobody has waited for.
func TestManyAreAdded(t *testing.T) {
	_, e, send := opened(t)
	before := len(e.Pending())
	rs := make([]engine.Request, 500)
	for i := range rs {
		var err error
		if rs[i], err = send(3, "a letter"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(e.Pending()) - before; n != len(rs) {
		t.Errorf("%d are pending, not %d", n, len(rs))
	}
	for i, r := range rs {
		if _, err := e.Wait(r, nil); err != nil {
			t.Fatal(i, err)
		}
	}
}

// Nothing is added that is not like it, and nothing for which something else counts.
func TestNothingIsAdded(t *testing.T) {
	typ := &engine.Type{ID: 7, Size: 1, Name: "letter"}
	eight := []byte("a letter")
	for name, do := range map[string]func(m *fakeShort, e *engine.Engine) error{
		"another tag":     func(m *fakeShort, e *engine.Engine) error { return e.Send(1, 5, 4, typ, eight, engine.Standard, nil) },
		"another context": func(m *fakeShort, e *engine.Engine) error { return e.Send(1, 6, 3, typ, eight, engine.Standard, nil) },
		"another rank":    func(m *fakeShort, e *engine.Engine) error { return e.Send(2, 5, 3, typ, eight, engine.Standard, nil) },
		"another length": func(m *fakeShort, e *engine.Engine) error {
			return e.Send(1, 5, 3, typ, eight[1:], engine.Standard, nil)
		},
		"no type": func(m *fakeShort, e *engine.Engine) error { return e.Send(1, 5, 3, nil, eight, engine.Standard, nil) },
		"synchronous": func(m *fakeShort, e *engine.Engine) error {
			_, err := e.Isend(1, 5, 3, typ, eight, engine.Synchronous)
			return err
		},
		"closed": func(m *fakeShort, e *engine.Engine) error {
			m.opens[1].Size = 0
			return e.Send(1, 5, 3, typ, eight, engine.Standard, nil)
		},
		"after the deadline": func(m *fakeShort, e *engine.Engine) error {
			past, cancel := context.WithDeadline(t.Context(), time.Time{})
			defer cancel()
			v := engine.NewView(past, e)
			defer v.Close()
			for v.Err() == nil { // it fires by itself
				runtime.Gosched()
			}
			if err := e.Send(1, 5, 3, typ, eight, engine.Standard, v); !errors.Is(err, engine.ErrDeadline) {
				return fmt.Errorf("%v, not %v", err, engine.ErrDeadline)
			}
			return nil
		},
		"another context poisoned": func(m *fakeShort, e *engine.Engine) error {
			e.Poison(6, nil, errors.New("for a reason"))
			return e.Send(1, 5, 3, typ, eight, engine.Standard, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, e, _ := opened(t)
			if err := do(m, e); err != nil {
				t.Error(err)
			}
			if m.words[1] != 0 {
				t.Error("something was added")
			}
		})
	}
	for name, c := range map[string]struct {
		do   func(m *fakeShort, e *engine.Engine)
		want error
	}{
		"poisoned": {func(m *fakeShort, e *engine.Engine) { e.Poison(5, nil, errors.New("for a reason")) }, engine.ErrPoisoned},
		"aborted":  {func(m *fakeShort, e *engine.Engine) { e.Abort(errors.New("for a reason")) }, engine.ErrAborted},
		"peer failed": {func(m *fakeShort, e *engine.Engine) {
			m.sink.Down(1, errors.New("for a reason"))
			e.Progress()
		}, engine.ErrPeerFailed},
		"closed": {func(m *fakeShort, e *engine.Engine) { e.Close() }, engine.ErrAborted},
	} {
		t.Run(name, func(t *testing.T) {
			m, e, send := opened(t)
			c.do(m, e)
			if _, err := send(3, "a letter"); !errors.Is(err, c.want) {
				t.Errorf("%v, not %v", err, c.want)
			}
			if m.words[1] != 0 {
				t.Error("something was added")
			}
		})
	}
}
