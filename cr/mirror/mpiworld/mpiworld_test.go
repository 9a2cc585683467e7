package mpiworld_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/mirror"
	"github.com/gorun-mpi/gorun/cr/mirror/mpiworld"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// open makes a world of a communicator, each rank on a node of its own.
func open(c *mpi.Comm) (*mirror.World, error) {
	t, err := mpiworld.New(c, mpiworld.Options{Node: fmt.Sprint("n", c.Rank()), Rack: fmt.Sprint("r", c.Rank()%2)})
	if err != nil {
		return nil, err
	}
	return mirror.New(t), nil
}

// State goes to the neighbours and comes back from them, and from disk in the job's next life, where ranks are on other
// nodes.
func TestLives(t *testing.T) {
	for _, policy := range []mirror.Policy{mirror.Ring(1), mirror.Code{Data: 2, Parity: 1}, mirror.OtherRack{}} {
		dir := t.TempDir()
		for life := range 3 {
			mpitest.Run(t, 4, func(c *mpi.Comm) error {
				world, err := open(c)
				if err != nil {
					return err
				}
				defer world.Close()
				return mirror.Run(world, func(ctx context.Context) error {
					x, step := make([]float64, 30_000), 0
					there := fmt.Sprintf("%s/%d", dir, (c.Rank()+life)%4) // the disk of the node
					d, err := mirror.Open(world, "state", mirror.Options{Policy: policy, Target: mirror.File(there)})
					if err != nil {
						return err
					}
					defer d.Close()
					if err := d.Region("x", &x); err != nil {
						return err
					}
					if err := d.Region("step", &step); err != nil {
						return err
					}
					epoch, err := d.Restore(ctx)
					if err != nil {
						return err
					}
					if epoch != 3*life || step != epoch || step > 0 && x[7] != float64(100*c.Rank()+step) {
						t.Errorf("life %d, rank %d: epoch %d, step %d, value %v", life, c.Rank(), epoch, step, x[7])
					}
					for range 3 {
						step++
						for i := range x {
							x[i] = float64(100*c.Rank() + step)
						}
						if err := d.Start(ctx); err != nil {
							return err
						}
						if err := mpi.Barrier(c); err != nil { // messages of the program go on
							return err
						}
						if _, err := d.Commit(ctx); err != nil {
							return err
						}
					}
					if s := d.Stats(); s.Epochs != 3 || s.BytesMost < 8*30_000 {
						t.Errorf("stats %+v", s)
					}
					return nil
				})
			})
		}
	}
}

// Ranks of mpitest share a node, as those of a job on one machine do: refused by name, unless nothing is to be protected.
func TestNodes(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		tr, err := mpiworld.New(c, mpiworld.Options{})
		if err != nil {
			return err
		}
		world := mirror.New(tr)
		defer world.Close()
		return mirror.Run(world, func(ctx context.Context) error {
			if _, err := mirror.Open(world, "x", mirror.Options{}); err == nil || !strings.Contains(err.Error(), "there are 1") {
				t.Errorf("Open: %v", err)
			}
			d, err := mirror.Open(world, "x", mirror.Options{Policy: mirror.None{}})
			if err != nil {
				return err
			}
			_, err = d.Restore(ctx)
			return err
		})
	})
}

func ExampleNew() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		// On nodes of a cluster the zero Options will do.
		t, err := mpiworld.New(c, mpiworld.Options{Node: fmt.Sprint("node", c.Rank())})
		if err != nil {
			return err
		}
		world := mirror.New(t)
		defer world.Close()
		return mirror.Run(world, func(ctx context.Context) error {
			x := []int{10 * c.Rank()}
			d, err := mirror.Open(world, "state", mirror.Options{Policy: mirror.Ring(1)})
			if err != nil {
				return err
			}
			defer d.Close()
			if err := d.Region("x", &x); err != nil {
				return err
			}
			if _, err := d.Restore(ctx); err != nil {
				return err
			}
			if err := d.Start(ctx); err != nil {
				return err
			}
			x[0] = -1 // the copy has been made
			if _, err := d.Commit(ctx); err != nil {
				return err
			}
			epoch, err := d.Restore(ctx)
			if c.Rank() == 2 {
				fmt.Println("back in epoch", epoch, "with", x)
			}
			return err
		})
	})
	// Output: back in epoch 1 with [20]
}
