package mpi_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExampleComm_Rank() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			fmt.Println("rank", c.Rank(), "of", c.Size(), "on", c.String())
		}
		return nil
	})
	// Output: rank 1 of 2 on world
}

func ExampleComm_Size() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		share := 12 / c.Size() // of twelve things
		return show(c, 0, share, nil)
	})
	// Output: 4
}

func ExampleComm_String() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		return all(show(c, 0, c.String()+", "+d.String(), nil), d.Free())
	})
	// Output: world, world/1
}

func ExampleComm_Dup() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		mine, err := c.Dup() // for a library: its messages and the program's do not mix
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			return all(mpi.SendValue(c, "program"[0], 1, 0), mpi.SendValue(mine, "library"[0], 1, 0), mine.Free())
		}
		v, _, err1 := mpi.RecvValue[byte](mine, 0, 0)
		w, _, err2 := mpi.RecvValue[byte](c, 0, 0)
		fmt.Printf("%c %c %v\n", v, w, mine)
		return all(err1, err2, mine.Free())
	})
	// Output: l p world/1
}

func ExampleComm_Free() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		err = d.Free()
		return show(c, 0, errors.Is(mpi.Barrier(d), mpi.ErrComm), err)
	})
	// Output: true
}

func ExampleComm_Split() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		row, err := c.Split(c.Rank()/3, c.Rank()) // two rows of three
		if err != nil {
			return err
		}
		sum := []int{0}
		if err := mpi.Allreduce(row, []int{c.Rank()}, sum, mpi.Sum); err != nil {
			return err
		}
		if row.Rank() == 0 && c.Rank() > 0 {
			fmt.Println(row, "begins at rank", row.WorldRank(0), "and sums to", sum[0])
		}
		return row.Free()
	})
	// Output: world/1:1 begins at rank 3 and sums to 12
}

func ExampleComm_WorldRank() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		odd, err := c.Split(c.Rank()%2, 0)
		if err != nil {
			return err
		}
		return all(show(c, 3, odd.WorldRank(0), nil), odd.Free())
	})
	// Output: 1
}

func ExampleComm_FromWorld() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		odd, err := c.Split(c.Rank()%2, 0)
		if err == nil && c.Rank() == 3 {
			fmt.Println(odd.FromWorld(3), odd.FromWorld(2) == mpi.Undefined)
		}
		return err
	})
	// Output: 1 true
}

func ExampleComm_Self() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		if c.Rank() == 2 {
			fmt.Println(c.Self().Rank(), c.Self().Size(), c.Self())
		}
		return nil
	})
	// Output: 0 1 self
}

func ExampleComm_WithContext() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // or context.WithTimeout
		_, err := mpi.Recv(c.WithContext(ctx), []int{0}, mpi.AnySource, 0)
		fmt.Println(errors.Is(err, mpi.ErrDeadline), errors.Is(err, context.Canceled))
		return nil
	})
	// Output: true true
}
