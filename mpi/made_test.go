package mpi_test

import (
	"errors"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// A communicator that only some ranks make is an error of those who wait for the
// others in it, or in another call on its parent.
func TestMadeBySome(t *testing.T) {
	dup := func(c *mpi.Comm) error {
		d, err := c.Dup()
		if err == nil {
			err = mpi.Barrier(d)
		}
		return err
	}
	split := func(c *mpi.Comm) error {
		d, err := c.Split(0, 0)
		if err == nil {
			err = mpi.Barrier(d)
		}
		return err
	}
	receives := func(c *mpi.Comm) error {
		d, err := c.Dup()
		if err == nil {
			_, err = mpi.Recv(d, []int{0}, (c.Rank()+1)%c.Size(), 0)
		}
		return err
	}
	ends := errors.New("calls nothing")
	finalizes := func(c *mpi.Comm) error { return ends }
	for _, x := range []struct {
		name         string
		some, others func(c *mpi.Comm) error
	}{
		{"Dup and Barrier", dup, mpi.Barrier},
		{"Dup and Finalize", dup, finalizes},
		{"Dup for messages and Finalize", receives, finalizes},
		{"Dup and Split", dup, split},
		{"Split and Barrier", split, mpi.Barrier},
		{"Split and Finalize", split, finalizes},
	} {
		for who := range 3 { // makes it; and with 0 so does 2
			t.Run(x.name, func(t *testing.T) {
				mpitest.Run(t, 4, func(world *mpi.Comm) error {
					c, err := oneInUse(world, tables[who%2])
					if err != nil {
						return err
					}
					if c.Rank() == who || who == 0 && c.Rank() == 2 {
						err = x.some(c)
					} else {
						err = x.others(c)
					}
					if err == ends {
						mpi.Finalizing(world)
						return nil
					}
					return wantErr("the call", err, mpi.ErrMismatch)
				})
			})
		}
	}
}
