package cli_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
)

// standStill makes the ranks wait for each other in some way. Those that end by themselves do so when somebody opens the pipe.
func standStill(world *mpi.Comm, how, pipe string) error {
	r, n := world.Rank(), world.Size()
	recv := func(from int) error {
		_, _, err := mpi.RecvValue[int](world, from, 7)
		return err
	}
	switch how {
	case "cycle":
		return recv((r + 2) % n)
	case "any":
		return recv(mpi.AnySource)
	case "goroutines":
		var wg sync.WaitGroup
		wg.Go(func() { _ = recv((r + 1) % n) })
		wg.Wait()
		return nil
	case "ssend":
		return mpi.Ssend(world, []int{r}, (r+1)%n, 3)
	case "waitany":
		var reqs []mpi.Request
		for other := range n {
			q, err := mpi.Irecv(world, make([]int, 1), other, 7)
			if err != nil {
				return err
			}
			reqs = append(reqs, q)
		}
		_, _, err := mpi.Waitany(reqs)
		return err
	case "iallreduce":
		if r == 0 {
			return recv(1)
		}
		q, err := mpi.Iallreduce(world, []int{1}, make([]int, 1), mpi.Sum)
		if err == nil {
			_, err = q.Wait()
		}
		return err
	}
	// From here on rank 0 goes on when the pipe is opened, and the others with it.
	if r != 0 {
		return recv(0)
	}
	switch how {
	case "reads":
		os.ReadFile(pipe)
	case "sleeps":
		for present(pipe) {
			time.Sleep(time.Millisecond)
		}
	case "computes":
		for i := 0; i%1024 != 0 || present(pipe); i++ {
		}
	case "tests":
		q, err := mpi.Irecv(world, make([]int, 1), 1, 8)
		if err != nil {
			return err
		}
		for present(pipe) {
			if _, _, err := q.Test(); err != nil {
				return err
			}
		}
		if err := q.Cancel(); err != nil {
			return err
		}
		_, _ = q.Wait()
	case "deadline": // which another goroutine ends
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			for present(pipe) {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		if _, _, err := mpi.RecvValue[int](world.WithContext(ctx), 1, 8); err == nil {
			return fmt.Errorf("a message that nobody has sent")
		}
	default:
		return fmt.Errorf("no way to wait is called %q", how)
	}
	for other := 1; other < n; other++ {
		if err := mpi.SendValue(world, 1, other, 7); err != nil {
			return err
		}
	}
	return nil
}

// present reports whether the pipe is there.
func present(pipe string) bool {
	_, err := os.Lstat(pipe)
	return err == nil
}
