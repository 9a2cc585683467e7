package engine_test

import (
	"errors"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// A caller that waits for a request outside the engine, or polls it, sees that the job was aborted.
func TestAbortIsSeen(t *testing.T) {
	e := newFakeNet(t, 2).engines()[0]
	r := must(t)(e.Irecv(1, ctx, 1, bytesType, make([]byte, 1)))
	p := must(t)(e.Begin(late()))
	before := e.Notify(r)
	e.Abort(errors.New("enough"))
	<-before
	<-e.Notify(p)
	if !e.Done(r) {
		t.Error("waiting for it would return at once")
	}
	if _, err := e.Arrived(p, 0, 1); !errors.Is(err, engine.ErrAborted) {
		t.Error(err)
	}
}
