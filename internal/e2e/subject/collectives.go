package main

import (
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
)

// collectives: four ranks are in different collectives of different
// communicators at once, and out of some of them already.
func collectives(s *stage, c *mpi.Comm) error {
	var comms [4]*mpi.Comm
	for i := range comms {
		var err error
		if comms[i], err = c.Dup(); err != nil {
			return err
		}
		if err := mpi.Barrier(comms[i]); err != nil { // which makes it a team, if it can be one
			return err
		}
	}
	last := c.Size() - 1
	sum := make([]float64, 1000)
	for i := range sum {
		sum[i] = float64(i)
	}
	word := []string{"mpi.AllreduceInPlace[", "mpi.Barrier(", "mpi.Alltoall["}
	fs := []func() error{
		func() error { return mpi.AllreduceInPlace(comms[0], sum, mpi.Sum) },
		func() error { return mpi.Barrier(comms[2]) },
		func() error { return s.everybody(comms[3]) },
	}
	buf := noise(small, uint64(c.Rank()))
	early := func() error { return mpi.Bcast(comms[1], buf, 0) } // all but the last are soon out of it
	if c.Rank() < last {
		if err := early(); err != nil {
			return err
		}
		s.inside(c, word[c.Rank()%2:]...)
		if c.Rank()%2 == 1 { // half of them are late for the first one, too
			first := fs[0]
			fs[0] = func() error { s.wait("go"); return first() }
		}
	} else {
		s.here(c.Rank())
		s.wait("go")
		fs = append(fs, early)
	}
	if err := together(fs...); err != nil {
		return err
	}
	for i, v := range sum {
		if v != float64(i*c.Size()) {
			return fmt.Errorf("sum %d is %v", i, v)
		}
	}
	return same(buf, 0)
}

// alltoall: everybody but one has begun an exchange that is too large for
// buffers and is blocked in it; the one sleeps.
func alltoall(s *stage, c *mpi.Comm) error {
	if c.Rank() < c.Size()-1 {
		s.inside(c, "mpi.Alltoall[")
	} else {
		s.here(c.Rank())
		s.wait("go")
	}
	n := 4 * large
	send, recv := make([]uint64, 0, c.Size()*n), make([]uint64, c.Size()*n)
	for to := range c.Size() {
		send = append(send, noise(n, uint64(c.Rank()*c.Size()+to))...)
	}
	if err := mpi.Alltoall(c, send, recv); err != nil {
		return err
	}
	for from := range c.Size() {
		if err := same(recv[from*n:][:n], uint64(from*c.Size()+c.Rank())); err != nil {
			return fmt.Errorf("from rank %d: %w", from, err)
		}
	}
	return s.result(c, "all")
}

// asleep: all sleep, then exchange.
func asleep(s *stage, c *mpi.Comm) error {
	s.here(c.Rank())
	s.wait("go")
	return s.everybody(c)
}

// split: communicators made before are used after, and new ones are made.
func split(s *stage, c *mpi.Comm) error {
	half, err := c.Split(c.Rank()%2, -c.Rank())
	if err != nil {
		return err
	}
	var dups []*mpi.Comm
	for range 20 {
		d, err := half.Dup()
		if err != nil {
			return err
		}
		dups = append(dups, d)
	}
	s.here(c.Rank())
	s.wait("go")
	for i, d := range dups {
		sum := []int{c.Rank() + i}
		if err := mpi.AllreduceInPlace(d, sum, mpi.Sum); err != nil {
			return err
		}
		want := 0
		for r := c.Rank() % 2; r < c.Size(); r += 2 {
			want += r + i
		}
		if sum[0] != want {
			return fmt.Errorf("communicator %d: %d instead of %d", i, sum[0], want)
		}
		if err := d.Free(); err != nil {
			return err
		}
	}
	whole, err := c.Dup()
	if err != nil {
		return err
	}
	return s.everybody(whole)
}

// initialise: one rank takes its time before Init.
func initialise(s *stage) error {
	first, err := s.claim("first")
	if err != nil {
		return err
	}
	if first {
		s.here(0)
		s.wait("go")
	}
	mpi.Run(func(c *mpi.Comm) error { return s.everybody(c) })
	return nil
}

// finalize: all but the last rank are in Finalize.
func finalize(s *stage) error {
	if err := mpi.Init(); err != nil {
		return err
	}
	c := mpi.World()
	if err := mpi.Barrier(c); err != nil {
		return err
	}
	rank, last := c.Rank(), c.Rank() == c.Size()-1
	if last {
		s.here(rank)
		s.wait("go")
	} else {
		s.inside(c, "mpi.Finalize(")
	}
	if err := mpi.Finalize(); err != nil {
		return err
	}
	if rank == 0 {
		s.print("finalized")
	}
	return nil
}

// finalized: all are out of Finalize and have something to do still.
func finalized(s *stage) error {
	if err := mpi.Init(); err != nil {
		return err
	}
	rank := mpi.World().Rank()
	if err := mpi.Finalize(); err != nil {
		return err
	}
	s.here(rank)
	s.wait("go")
	if rank == 0 {
		s.print("finalized")
	}
	return nil
}
