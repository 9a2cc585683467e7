package mirror_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/mirror"
)

// After Remove all calls of a description are errors that say so, and further ones of Remove and Close nothing: also where another was opened under its name.
func TestAfterRemove(t *testing.T) {
	t.Parallel()
	c := start(t, 2, nodesOf(2), func(ctx context.Context, m *member) error {
		x := []int{1}
		d, _, err := open(ctx, m, "x", mirror.Options{}, &x)
		if err != nil {
			return err
		}
		other, err := mirror.Open(m.world, "x", mirror.Options{})
		if err := errors.Join(err, d.Start(ctx), commit(ctx, d), d.Remove()); err != nil {
			return err
		}
		if s := d.State(); s.Epoch != 0 || s.Running {
			t.Errorf("state %+v", s)
		}
		for _, d := range []*mirror.Description{d, other} {
			_, err1 := d.Commit(ctx)
			_, err2 := d.Restore(ctx)
			for _, err := range []error{err1, err2, d.Start(ctx)} {
				if err == nil || !strings.Contains(err.Error(), "closed") {
					t.Errorf("after Remove: %v", err)
				}
			}
		}
		e, _, err := open(ctx, m, "x", mirror.Options{}, &x)
		if err := errors.Join(err, d.Remove(), d.Close()); err != nil {
			return err
		}
		return errors.Join(e.Start(ctx), commit(ctx, e), e.Remove(), e.Remove())
	})
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
}

// What is opened anew has to be restored first: with another policy an epoch would never be whole.
func TestOpenedAnew(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nodesOf(3), func(ctx context.Context, m *member) error {
		x := []int{1}
		if _, _, err := open(ctx, m, "x", mirror.Options{Policy: mirror.Ring(2)}, &x); err != nil {
			return err
		}
		d, err := mirror.Open(m.world, "x", mirror.Options{Policy: mirror.Ring(1)})
		if err != nil {
			return err
		}
		if err := d.Start(ctx); err == nil || !strings.Contains(err.Error(), "Restore") {
			t.Errorf("Start without Restore: %v", err)
		}
		_, err = d.Restore(ctx)
		return errors.Join(err, d.Start(ctx), commit(ctx, d))
	})
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
}

// What cannot be is refused by its name.
func TestRefused(t *testing.T) {
	t.Parallel()
	c := start(t, 1, nodesOf(1), func(ctx context.Context, m *member) error {
		for want, o := range map[string]mirror.Options{
			"no function To": {Policy: mirror.Func{Name: "mine"}},
			"at least ring:": {Policy: mirror.Ring(0)},
			"at least ring":  {Policy: mirror.Ring(-1)},
			"Copies is -1":   {Copies: -1},
			"needs 3 node":   {Copies: 2},
		} {
			if _, err := mirror.Open(m.world, "x", o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v", o, err)
			}
		}
		return nil
	})
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
}

// A world that is closed while Start copies, such as by a handler of signals, ends that with an error or without, and not with a fault.
func TestClosedInStart(t *testing.T) {
	t.Parallel()
	c := start(t, 1, nodesOf(1), func(ctx context.Context, m *member) error {
		x := make([]byte, 64<<20)
		d, _, err := open(ctx, m, "x", mirror.Options{Policy: mirror.None{}}, &x)
		if err != nil {
			return err
		}
		over := make(chan error, 1)
		go func() { over <- d.Start(ctx) }()
		for d.State().Started == 0 { // its lock is free while it copies
			runtime.Gosched()
		}
		m.world.Close()
		return <-over
	})
	c.wg.Wait()
	c.stop() // it waits for another member
	<-c.over
}
