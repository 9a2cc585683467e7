package main

import (
	"context"
	"os"

	"github.com/gorun-mpi/gorun/cr/mirror"
	"github.com/gorun-mpi/gorun/cr/mirror/mpiworld"
	"github.com/gorun-mpi/gorun/mpi"
)

// asRank runs as a rank of a job.
func asRank(o options) {
	mpi.Run(func(c *mpi.Comm) error {
		t, err := mpiworld.New(c, mpiworld.Options{})
		if err != nil {
			return err
		}
		world := mirror.New(t)
		defer world.Close()
		return mirror.Run(world, func(ctx context.Context) error { return stencil(ctx, world, comm{c}, o, os.Stdout) })
	})
}

// comm is messages over a communicator.
type comm struct{ *mpi.Comm }

func (c comm) place() (int, int) { return c.Rank(), c.Size() }

func (c comm) shift(ctx context.Context, to int, send []uint32, from int, recv []uint32, tag int) error {
	_, err := mpi.Sendrecv(c.WithContext(ctx), send, to, tag, recv, from, tag)
	return err
}

func (c comm) sum(ctx context.Context, v uint64) (uint64, error) {
	total := []uint64{0}
	err := mpi.Reduce(c.WithContext(ctx), []uint64{v}, total, mpi.Sum, 0)
	return total[0], err
}
