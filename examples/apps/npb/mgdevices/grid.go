package main

import (
	"slices"

	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/mpi"
)

// grid is what a rank has of a cube of n points along each edge: planes, between one of the rank below and one of the rank
// above, the ghosts.
type grid struct {
	n            int
	first, count int                    // of the planes without the ghosts
	u, r         *device.Array[float64] // the solution or its correction, and the residual
}

func newGrid(n, first, count int) *grid {
	return &grid{n, first, count, device.NewArray[float64](count+2, n, n), device.NewArray[float64](count+2, n, n)}
}

// whole reports whether the rank has all planes.
func (g *grid) whole() bool { return g.count == g.n }

// own are the planes of an array without the ghosts.
func (g *grid) own(a *device.Array[float64]) *device.Array[float64] { return a.Rows(1, g.count+1) }

// near are some planes of an array with ghosts, to be read, and the planes beside them.
func near(a *device.Array[float64], from, to int) (planes, below, above device.Use) {
	return a.Rows(from+1, to+1).In(), a.Rows(from, from+1).In(), a.Rows(to+1, to+2).In()
}

// ghosts fills the ghosts of an array with the planes beside them.
func (g *grid) ghosts(c *mpi.Comm, a *device.Array[float64]) error {
	below, above := (c.Rank()+c.Size()-1)%c.Size(), (c.Rank()+1)%c.Size()
	for _, m := range []struct{ plane, to, ghost, from int }{{1, below, g.count + 1, above}, {g.count, above, 0, below}} {
		mine, err := a.Rows(m.plane, m.plane+1).Host()
		if err != nil {
			return err
		}
		theirs, err := a.Rows(m.ghost, m.ghost+1).HostW()
		if err != nil {
			return err
		}
		if g.whole() {
			copy(theirs, mine)
		} else if _, err := mpi.Sendrecv(c, mine, m.to, 0, theirs, m.from, 0); err != nil {
			return err
		}
	}
	return nil
}

// gather has all ranks know all planes of an array, of which each has computed its share.
func (g *grid) gather(c *mpi.Comm, a *device.Array[float64]) error {
	share := g.n / c.Size()
	mine, err := a.Rows(1+c.Rank()*share, 1+(c.Rank()+1)*share).Host()
	if err != nil {
		return err
	}
	mine = slices.Clone(mine)
	all, err := g.own(a).HostW()
	if err != nil {
		return err
	}
	return mpi.Allgather(c, mine, all)
}
