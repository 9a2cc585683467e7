package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
)

// pending: many requests of all kinds are under way: receives that wait for
// messages, sends that wait for receives, and one that will be cancelled.
func pending(s *stage, c *mpi.Comm) error {
	const n = 100
	switch c.Rank() {
	case 0:
		var all []mpi.Request
		var bufs [n][]uint64
		for i := range n {
			bufs[i] = make([]uint64, size(i))
			src := 1
			if i%10 == 0 {
				src = mpi.AnySource
			}
			r, err := mpi.Irecv(c, bufs[i], src, i)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		cancelled := make(chan error, 1)
		go func() {
			_, err := mpi.Recv(c.WithContext(ctx), make([]uint64, small), 1, n+1)
			cancelled <- err
		}()
		s.inside(c, "mpi.Waitall(", "mpi.Recv[")
		if _, err := mpi.Waitall(all); err != nil {
			return err
		}
		cancel()
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			return fmt.Errorf("a receive that was cancelled: %v", err)
		}
		for i := range n {
			if err := same(bufs[i], uint64(i)); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
		}
		return s.result(c, "received")
	case 1:
		var all []mpi.Request
		for i := range n {
			r, err := mpi.Isend(c, noise(size(i), uint64(i)), 2, i)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		s.here(1)
		s.wait("go")
		for i := n - 1; i >= 0; i-- {
			r, err := mpi.Isend(c, noise(size(i), uint64(i)), 0, i)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		for len(all) > 0 {
			i, _, err := mpi.Waitany(all)
			if err != nil {
				return err
			}
			all = append(all[:i], all[i+1:]...)
		}
		return nil
	default:
		s.here(2)
		s.wait("go")
		for i := n - 1; i >= 0; i-- {
			buf := make([]uint64, size(i))
			if _, err := mpi.Recv(c, buf, 1, i); err != nil {
				return err
			}
			if err := same(buf, uint64(i)); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
		}
		return nil
	}
}

// size is the length of the i-th message: most are small.
func size(i int) int {
	if i%20 == 19 {
		return large
	}
	return small + i
}

// probes: a rank is blocked in a probe, one holds a message that a matched
// probe has taken, and one looks again and again.
func probes(s *stage, c *mpi.Comm) error {
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	var sends []mpi.Request
	for tag, n := range []int{small, large} {
		r, err := mpi.Isend(c, noise(n, uint64(c.Rank())), next, tag)
		if err != nil {
			return err
		}
		sends = append(sends, r)
	}
	var held [2]mpi.Message
	for tag := range held {
		var err error
		if held[tag], _, err = c.Mprobe(before, tag); err != nil {
			return err
		}
	}
	s.inside(c, "mpi.(*Comm).Probe(")
	blocked := make(chan error, 1)
	go func() {
		_, err := c.Probe(mpi.AnySource, 2)
		blocked <- err
	}()
	for !s.open("go") {
		if _, ok, err := c.Iprobe(before, mpi.AnyTag); ok || err != nil {
			return fmt.Errorf("a message out of nothing, or an error: %v", err)
		}
		tick()
	}
	if err := mpi.Barrier(c); err != nil { // nobody looks any more
		return err
	}
	if err := mpi.Send(c, noise(small, 2), next, 2); err != nil {
		return err
	}
	if err := <-blocked; err != nil {
		return err
	}
	for tag, n := range []int{small, large} {
		buf := make([]uint64, n)
		if _, err := mpi.Mrecv(held[tag], buf); err != nil {
			return err
		}
		if err := same(buf, uint64(before)); err != nil {
			return err
		}
	}
	buf := make([]uint64, small)
	if _, err := mpi.Recv(c, buf, before, 2); err != nil {
		return err
	}
	_, err := mpi.Waitall(sends)
	return errors.Join(err, same(buf, 2), s.result(c, "probed"))
}
