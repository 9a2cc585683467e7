package mpi_test

import (
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// oceanAndAir makes two groups of the ranks of c, the first of n ranks, and joins them.
func oceanAndAir(c *mpi.Comm, n int) (group, inter *mpi.Comm, err error) {
	air := 0
	if c.Rank() >= n {
		air = 1
	}
	if group, err = c.Split(air, 0); err != nil {
		return nil, nil, err
	}
	inter, err = mpi.IntercommCreate(group, 0, c, n*(1-air), 7)
	return group, inter, err
}

func ExampleIntercommCreate() {
	mpitest.Example(5, func(c *mpi.Comm) error {
		air := 0 // ranks 0 and 1 compute the ocean, 2 to 4 the air
		if c.Rank() >= 2 {
			air = 1
		}
		group, err := c.Split(air, 0)
		if err != nil {
			return err
		}
		inter, err := mpi.IntercommCreate(group, 0, c, 2*(1-air), 7)
		if err != nil {
			return err
		}
		if c.Rank() == 1 { // rank 1 of the ocean speaks to rank 2 of the air
			return mpi.SendValue(inter, "salt"[0], 2, 0)
		}
		if c.Rank() == 4 {
			v, st, err := mpi.RecvValue[byte](inter, mpi.AnySource, 0)
			fmt.Printf("%c from rank %d of the other group\n", v, st.Source)
			return err
		}
		return nil
	})
	// Output: s from rank 1 of the other group
}

func ExampleComm_IsInter() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		_, inter, err := oceanAndAir(c, 1)
		return show(c, 0, fmt.Sprint(c.IsInter(), inter.IsInter()), err)
	})
	// Output: false true
}

func ExampleComm_RemoteSize() {
	mpitest.Example(5, func(c *mpi.Comm) error {
		_, inter, err := oceanAndAir(c, 2)
		return show(c, 0, fmt.Sprint(inter.Size(), inter.RemoteSize()), err)
	})
	// Output: 2 3
}

func ExampleComm_RemoteGroup() {
	mpitest.Example(5, func(c *mpi.Comm) error {
		_, inter, err := oceanAndAir(c, 2)
		return show(c, 0, inWorld(c, inter.RemoteGroup()), err)
	})
	// Output: [2 3 4]
}

func ExampleComm_Merge() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		_, inter, err := oceanAndAir(c, 1)
		if err != nil {
			return err
		}
		both, err := inter.Merge(c.Rank() == 0) // the ocean comes last
		if err != nil {
			return err
		}
		return show(both, both.Size()-1, fmt.Sprint("rank ", c.Rank(), " is ", both.Rank()), err)
	})
	// Output: rank 0 is 3
}
