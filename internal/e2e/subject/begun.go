package main

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
)

// begun: collectives are under way all the time, one that rank 0 has not yet begun is half done on the others, and
// persistent messages are started, or idle.
func begun(s *stage, c *mpi.Comm) error {
	me, n := c.Rank(), c.Size()
	right, left := (me+1)%n, (me+n-1)%n
	late, err := c.Dup()
	if err != nil {
		return err
	}
	all := make([]uint64, n*large)
	half := func() (mpi.Request, error) { return mpi.Iallgather(late, noise(large, uint64(me)), all) }
	in := make([]uint64, large)
	recv, err := mpi.RecvInit(c, in, left, 1)
	send, err2 := mpi.SendInit(c, noise(large, uint64(me)), right, 1)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	rs := make([]mpi.Request, 3)
	if me != 0 {
		if rs[0], err = half(); err != nil {
			return err
		}
	}
	if rs[1], err = recv.Start(); err != nil {
		return err
	}
	s.here(me)
	if err := rounds(s, c); err != nil {
		return err
	}
	if me == 0 {
		if rs[0], err = half(); err != nil {
			return err
		}
	}
	if rs[2], err = send.Start(); err != nil {
		return err
	}
	if _, err := mpi.Waitall(rs); err != nil {
		return err
	}
	for r := range n {
		if err := same(all[r*large:(r+1)*large], uint64(r)); err != nil {
			return fmt.Errorf("block %d: %w", r, err)
		}
	}
	return errors.Join(same(in, uint64(left)), recv.Free(), send.Free(), late.Free(), s.result(c, "ended"))
}

// rounds has several collectives under way until "go", which all ranks learn alike.
func rounds(s *stage, c *mpi.Comm) error {
	stop, most, sums := make([]uint64, 1), make([]uint64, large), make([]uint64, small)
	mine := noise(large, 5)
	p, err := mpi.AllreduceInit(c, mine, most, mpi.Max)
	if err != nil {
		return err
	}
	for stop[0] == 0 {
		flag := []uint64{0}
		if s.open("go") {
			flag[0] = 1
		}
		clear(most)
		a, err := p.Start()
		b, err2 := mpi.Iscan(c, noise(small, 6), sums, mpi.BOr)
		d, err3 := mpi.Iallreduce(c, flag, stop, mpi.Max)
		if err := errors.Join(err, err2, err3); err != nil {
			return err
		}
		if _, err := mpi.Waitall([]mpi.Request{a, b, d}); err != nil {
			return err
		}
		if err := errors.Join(same(most, 5), same(sums, 6)); err != nil {
			return err
		}
	}
	return p.Free()
}
