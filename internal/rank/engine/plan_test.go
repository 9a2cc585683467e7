package engine_test

import (
	"errors"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// name describes a plan.
type name string

func (n name) String() string { return string(n) }

// late is a plan of two messages to rank 1 that wait for Release.
func late() *engine.Plan {
	parts := []engine.Part{{Peer: 1, Late: true, Tag: 1, Type: bytesType, Buf: []byte{1}}, {Peer: 1, Late: true, Tag: 2, Type: bytesType, Buf: []byte{2}}}
	return &engine.Plan{Ctx: ctx, Rounds: []engine.Round{{Parts: parts}}, What: name("late")}
}

// A plan ends when its messages have begun and are over, also if the call that began the last one was refused something else.
func TestReleaseTooMuch(t *testing.T) {
	e := newFakeNet(t, 2).engines()
	r := must(t)(e[0].Begin(late()))
	for _, parts := range [][]int{{1, 1}, {0, 2}} {
		if err := e[0].Release(r, parts...); !errors.Is(err, engine.ErrRequest) {
			t.Errorf("parts %v: %v", parts, err)
		}
	}
	if _, done, err := e[0].Test(r); !done || err != nil {
		t.Errorf("complete %v, %v", done, err)
	}
}

// A message that cannot be begun ends its plan, whatever else was to be begun.
func TestReleaseFails(t *testing.T) {
	e := newFakeNet(t, 2).engines()
	r := must(t)(e[0].Begin(late()))
	e[0].Poison(ctx, nil, errors.New("spoilt"))
	if err := e[0].Release(r, 0, 1); err != nil {
		t.Error(err)
	}
	if _, done, err := e[0].Test(r); !done || !errors.Is(err, engine.ErrPoisoned) {
		t.Errorf("complete %v, %v", done, err)
	}
}

// While one caller does the work of a plan, another one leads: the work may wait for what that one receives.
func TestWorkWaitsForOther(t *testing.T) {
	e := memEngines(t, 2, true)
	defer e[0].Close()
	defer e[1].Close()
	send := func(tag int32) {
		if err := e[1].Send(0, ctx, tag, bytesType, []byte{1}, engine.Standard, nil); err != nil {
			t.Error(err)
		}
	}
	inside, received, ended := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	p := &engine.Plan{Ctx: ctx, What: name("works"), Do: func(int) error { close(inside); return <-received },
		Rounds: []engine.Round{{Parts: []engine.Part{{Peer: 1, Recv: true, Tag: 1, Type: bytesType, Buf: make([]byte, 1)}}, Do: true}}}
	r := must(t)(e[0].Begin(p))
	go func() {
		_, err := e[0].Wait(r, nil)
		ended <- err
	}()
	waitUntil(func() bool { w := e[0].Waits(); return len(w) == 1 && w[0].For > 0 }) // it leads, and is the first on the list
	go func() {
		_, err := e[0].Recv(1, ctx, 2, bytesType, make([]byte, 1), nil)
		received <- err
	}()
	waitUntil(func() bool { return len(e[0].Waits()) == 2 })
	send(1)
	<-inside
	send(2)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
