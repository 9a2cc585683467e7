package mpi_test

import (
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExampleComm_Group() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		g := c.Group()
		return show(c, 1, fmt.Sprint(g.Rank(), " of ", g.Size()), nil)
	})
	// Output: 1 of 3
}

func ExampleGroup_Size() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		some, err := c.Group().Include(0, 2)
		return show(c, 0, some.Size(), err)
	})
	// Output: 2
}

func ExampleGroup_Rank() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		some, err := c.Group().Include(3, 1)
		return show(c, 1, some.Rank(), err)
	})
	// Output: 1
}

// picks returns groups of the first and the last ranks.
func picks(c *mpi.Comm, first, last []int) (a, b mpi.Group, err error) {
	if a, err = c.Group().Include(first...); err == nil {
		b, err = c.Group().Include(last...)
	}
	return a, b, err
}

// inWorld returns the ranks of a group.
func inWorld(c *mpi.Comm, g mpi.Group) []int {
	return values2(g.Size(), func(r int) int { return g.Translate(r, c.Group()) })
}

func ExampleGroup_Union() {
	mpitest.Example(5, func(c *mpi.Comm) error {
		a, b, err := picks(c, []int{3, 0}, []int{0, 4})
		return show(c, 0, inWorld(c, a.Union(b)), err)
	})
	// Output: [3 0 4]
}

func ExampleGroup_Intersect() {
	mpitest.Example(5, func(c *mpi.Comm) error {
		a, b, err := picks(c, []int{3, 0, 4}, []int{4, 3})
		return show(c, 0, inWorld(c, a.Intersect(b)), err)
	})
	// Output: [3 4]
}

func ExampleGroup_Difference() {
	mpitest.Example(5, func(c *mpi.Comm) error {
		a, b, err := picks(c, []int{3, 0, 4}, []int{0, 1})
		return show(c, 0, inWorld(c, a.Difference(b)), err)
	})
	// Output: [3 4]
}

func ExampleGroup_Include() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		backwards, err := c.Group().Include(3, 2, 1, 0)
		return show(c, 0, inWorld(c, backwards), err)
	})
	// Output: [3 2 1 0]
}

func ExampleGroup_Exclude() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		workers, err := c.Group().Exclude(0)
		return show(c, 0, inWorld(c, workers), err)
	})
	// Output: [1 2 3]
}

func ExampleGroup_Translate() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		some, err := c.Group().Include(2, 3)
		return show(c, 0, fmt.Sprint(some.Translate(1, c.Group()), c.Group().Translate(0, some) == mpi.Undefined), err)
	})
	// Output: 3 true
}

func ExampleGroup_Compare() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		g := c.Group()
		turned, err := g.Include(1, 2, 0)
		return show(c, 0, fmt.Sprint(g.Compare(g), " ", g.Compare(turned), " ", g.Compare(mpi.Group{})), err)
	})
	// Output: Ident Similar Unequal
}

func ExampleComm_Compare() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		how, err := c.Compare(d)
		return all(show(c, 0, how, err), d.Free())
	})
	// Output: Congruent
}

func ExampleComparison_String() {
	fmt.Println(mpi.Similar.String())
	// Output: Similar
}

func ExampleComm_Create() {
	mpitest.Example(5, func(c *mpi.Comm) error {
		g, err := c.Group().Include(4, 2, 0)
		if err != nil {
			return err
		}
		even, err := c.Create(g) // all ranks call it; 1 and 3 get nil
		if err != nil || even == nil {
			return err
		}
		ranks, err := mpi.AllgatherObjects(even, c.Rank())
		return all(show(even, 0, ranks, err), even.Free())
	})
	// Output: [4 2 0]
}

func ExampleComm_CreateGroup() {
	mpitest.Example(5, func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			return nil // others need not call it
		}
		g, err := c.Group().Exclude(1)
		if err != nil {
			return err
		}
		d, err := c.CreateGroup(g, 0)
		if err != nil {
			return err
		}
		sum, err := mpi.AllreduceValue(d, c.Rank(), mpi.Sum)
		return all(show(d, 0, sum, err), d.Free())
	})
	// Output: 9
}

func ExampleComm_SplitType() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		near, err := c.SplitType(mpi.SharedMemory, c.Rank())
		if err != nil {
			return err
		}
		return all(show(c, 0, near.Size(), nil), near.Free()) // the ranks of a test are on one node
	})
	// Output: 4
}

func ExampleComm_SetName() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		err := c.SetName("everybody")
		return show(c, 0, c.Name(), err)
	})
	// Output: everybody
}

func ExampleComm_Name() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		return show(c, 0, c.Name(), nil)
	})
	// Output: world
}

func ExampleComm_DupWithInfo() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		ring, err := c.DupWithInfo(mpi.Info{"coll.allreduce": "ring"})
		if err != nil {
			return err
		}
		sum, err := mpi.AllreduceValue(ring, c.Rank(), mpi.Sum) // sent round the ring
		return all(show(c, 0, sum, err), ring.Free())
	})
	// Output: 3
}

func ExampleComm_Hints() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		d, err := c.DupWithInfo(mpi.Info{"coll.bcast": "chain@64k", "mood": "good"})
		if err != nil {
			return err
		}
		return all(show(c, 0, d.Hints(), nil), d.Free())
	})
	// Output: map[coll.bcast:chain@64k]
}

// counter is what a library keeps with each communicator; a duplicate counts anew.
var counter = mpi.NewKey(
	func(*mpi.Comm, *int) (*int, bool) { return new(int), true },
	func(c *mpi.Comm, n *int) {
		if c.Rank() == 0 {
			fmt.Println(c, "was used", *n, "times")
		}
	})

func ExampleNewKey() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		if err := counter.Set(d, new(int)); err != nil {
			return err
		}
		n, _ := counter.Get(d)
		*n += 3
		return d.Free()
	})
	// Output: world/1 was used 3 times
}

func ExampleKey_Set() {
	volume := mpi.NewKey[float64](nil, nil)
	mpitest.Example(2, func(c *mpi.Comm) error {
		err := volume.Set(c, 2.5)
		v, ok := volume.Get(c)
		return show(c, 0, fmt.Sprint(v, ok), err)
	})
	// Output: 2.5 true
}

func ExampleKey_Get() {
	volume := mpi.NewKey[float64](nil, nil)
	mpitest.Example(2, func(c *mpi.Comm) error {
		_, ok := volume.Get(c)
		return show(c, 0, ok, nil)
	})
	// Output: false
}

func ExampleKey_Delete() {
	volume := mpi.NewKey(nil, func(c *mpi.Comm, v float64) {
		if c.Rank() == 0 {
			fmt.Println("freed", v)
		}
	})
	mpitest.Example(2, func(c *mpi.Comm) error {
		return all(volume.Set(c, 2.5), volume.Delete(c))
	})
	// Output: freed 2.5
}
