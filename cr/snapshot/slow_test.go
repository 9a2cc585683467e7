package snapshot

import (
	"context"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/store"
)

// slow is a store that begins a set when it is let.
type slow struct {
	store.Store
	asked, let chan bool
}

func (s slow) Begin(ctx context.Context, set string) error {
	s.asked <- true
	<-s.let
	return s.Store.Begin(ctx, set)
}

// A store that does not answer keeps no snapshot waiting that goes elsewhere, nor a sweep. What is begun there is spared by that.
func TestSlowStore(t *testing.T) {
	c, far := catalogue(t), t.TempDir()
	s := slow{store.OpenDir(far), make(chan bool), make(chan bool)}
	c.Stores(func(Place, []string) (store.Store, error) { return s, nil })
	type begun struct {
		p   *Pending
		err error
	}
	for _, begin := range []func() (*Pending, error){
		func() (*Pending, error) { return c.BeginIn(jobA, Place{store.KindDir, far}, nil) },
		func() (*Pending, error) { return c.BeginReserved(jobA, 9, Place{store.KindDir, far}, nil) },
	} {
		over := make(chan begun, 1)
		go func() {
			p, err := begin()
			over <- begun{p, err}
		}()
		<-s.asked
		beside := make(chan error, 1)
		go func() {
			p, err := c.Begin(jobA)
			if err == nil {
				_, err = c.Sweep(jobA)
			}
			if err == nil {
				err = p.Discard()
			}
			beside <- err
		}()
		select {
		case err := <-beside:
			if err != nil {
				t.Error(err)
			}
			s.let <- true
		case <-time.After(time.Minute):
			t.Error("a snapshot waits for the store of another one")
			s.let <- true
			<-beside
		}
		b := <-over
		if b.err != nil {
			t.Fatal(b.err)
		}
		if err := b.p.Discard(); err != nil {
			t.Error(err)
		}
	}
}
