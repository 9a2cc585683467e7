package mpi_test

import (
	"fmt"
	"os"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// These run in processes of their own, see TestProcess.

func ExampleRun() {
	mpi.Run(func(c *mpi.Comm) error {
		sum := []int{0}
		if err := mpi.Allreduce(c, []int{7}, sum, mpi.Sum[int]()); err != nil {
			return err
		}
		fmt.Println("rank", c.Rank(), "of", c.Size(), "sum", sum[0])
		return nil
	})
}

func ExampleInit() {
	if err := mpi.Init(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("rank", mpi.World().Rank(), "of", mpi.World().Size(), mpi.Initialized())
	if err := mpi.Finalize(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ExampleFinalize() { ExampleInit() }

func ExampleInitialized() { ExampleInit() }

func ExampleWorld() { ExampleInit() }

func ExampleSelf() {
	mpi.Run(func(*mpi.Comm) error {
		fmt.Println("alone:", mpi.Self().Size() == 1)
		return nil
	})
}

func ExampleAbort() {
	mpi.Run(func(c *mpi.Comm) error {
		if c.Size() < 2 {
			mpi.Abort(c, 42)
		}
		return nil
	})
}

func ExampleWtime() {
	start := mpi.Wtime()
	mpitest.Example(2, mpi.Barrier)
	seconds := mpi.Wtime() - start
	fmt.Println(seconds > 0)
	// Output: true
}

func ExampleWtick() {
	fmt.Println(mpi.Wtick())
	// Output: 1e-09
}
