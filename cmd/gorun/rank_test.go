package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/mpi"
)

// rankMain is the program of a rank; its first argument says what it does.
func rankMain(args []string) int {
	what := args[0]
	if what == "foreign-order" {
		return foreignOrder()
	}
	if what == "no-init" {
		return 0
	}
	if what == "bytes" {
		dir, err := os.Getwd()
		fmt.Printf("%q %q %q %v\n", args[1:], os.Getenv("GORUN_TEST_KEPT"), filepath.Base(dir), err)
		args = []string{"count", args[1]}
		what = args[0]
	}
	if err := mpi.Init(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	world := mpi.World()
	switch what {
	case "no-finalize":
		if world.Rank() == 1 {
			return 0
		}
		mpi.Barrier(world)
	case "abort":
		if world.Rank() == 1 {
			mpi.Abort(world, 42)
		}
		mpi.Barrier(world)
	case "die":
		if world.Rank() == 2 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		// What the others meet is a consequence; Run would report it so.
		if err := mpi.Barrier(world); err != nil {
			return 3
		}
	case "leave":
		if world.Rank() == 2 {
			return 5
		}
		for mpi.Barrier(world) == nil {
		}
		return 3
	case "count":
		if err := count(world, args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := mpi.Finalize(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// count adds up to a limit on all ranks, a Point each step, and prints the sum
// on rank 0 together with where it began.
func count(world *mpi.Comm, limit string) error {
	n, err := strconv.Atoi(limit)
	if err != nil {
		return err
	}
	var i, sum int64
	if err := cr.Register("i", &i); err != nil {
		return err
	}
	if err := cr.Register("sum", &sum); err != nil {
		return err
	}
	if world.Rank() == 0 {
		fmt.Printf("begins at %d\n", i)
	}
	for ; i < int64(n); i++ {
		if err := cr.Point(); err != nil {
			return err
		}
		all := []int64{0}
		if err := mpi.Allreduce(world, []int64{i * int64(world.Rank()+1)}, all, mpi.Sum[int64]()); err != nil {
			return err
		}
		sum += all[0]
	}
	if world.Rank() == 0 {
		fmt.Printf("sum %d %s\n", sum, os.Getenv("GORUN_TEST_KEPT"))
	}
	return nil
}

// foreignOrder speaks for itself: every second rank claims the other byte order.
func foreignOrder() int {
	conn, err := oob.Inherited()
	if err != nil || conn == nil {
		return 9
	}
	info := oob.HelloInfo{Role: "rank", PID: os.Getpid(), Arch: "s390x", BigEndian: os.Getpid()%2 == 0}
	// The rank is not known before Start, which is already there.
	if _, err := conn.Recv(); err != nil {
		return 9
	}
	start, err := conn.Recv()
	if err != nil {
		return 9
	}
	if info.BigEndian = start.To%2 == 1; !info.BigEndian {
		info.Arch = "amd64"
	}
	if _, err := conn.Greet(info, start.To); err != nil {
		return 1 // the head has ended the job
	}
	for {
		if _, err := conn.Recv(); err != nil {
			return 1
		}
	}
}
