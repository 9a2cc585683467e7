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
		if err := mpi.Allreduce(c, []int{7}, sum, mpi.Sum); err != nil {
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

func ExampleFinalize() {
	if err := mpi.Init(); err != nil {
		panic(err)
	}
	_, err := mpi.Irecv(mpi.World(), []int{0}, mpi.ProcNull, 0) // begun, and complete at once
	fmt.Println(err, mpi.Finalize(), mpi.Barrier(mpi.World()) != nil)
}

func ExampleInitialized() {
	fmt.Println(mpi.Initialized())
	mpi.Run(func(*mpi.Comm) error {
		fmt.Println(mpi.Initialized())
		return nil
	})
	fmt.Println(mpi.Initialized())
}

func ExampleFinalized() {
	mpi.Run(func(*mpi.Comm) error {
		fmt.Println(mpi.Finalized())
		return nil
	})
	fmt.Println(mpi.Finalized())
}

func ExampleWorld() {
	fmt.Println(mpi.World())
	mpi.Run(func(c *mpi.Comm) error {
		fmt.Println(mpi.World() == c, mpi.World())
		return nil
	})
}

func ExampleVersion() {
	version, subversion := mpi.Version()
	fmt.Printf("%d.%d\n", version, subversion)
	// Output: 4.1
}

func ExampleProcessorName() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		name, err := mpi.ProcessorName()
		if err != nil {
			return err
		}
		names, err := mpi.GatherObjects(c, name, 0)
		return show(c, 0, len(names), err)
	})
	// Output: 2
}

func ExampleHealth() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		states, changed, err := mpi.Health(c)
		select {
		case <-changed:
			return fmt.Errorf("something has happened")
		default:
		}
		return show(c, 0, states, err)
	})
	// Output: [healthy healthy]
}

func ExampleState_String() {
	fmt.Println(mpi.Suspect.String())
	// Output: suspect
}

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
