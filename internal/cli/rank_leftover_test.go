package cli_test

import (
	"fmt"
	"os"

	"github.com/gorun-mpi/gorun/mpi"
)

// leaveOver ends with messages or calls that have no counterpart. What fails is told and is no failure of the rank.
func leaveOver(world *mpi.Comm, how string) error {
	r, n := world.Rank(), world.Size()
	long := make([]int, 200_000)
	right := (r + 1) % n
	var err error
	switch how {
	case "small":
		return mpi.Send(world, long[:1], right, 5)
	case "bsend":
		return mpi.Bsend(world, long, right, 5)
	case "received": // all is
		if err := mpi.Bsend(world, long, right, 5); err != nil {
			return err
		}
		_, err := mpi.Recv(world, long, mpi.AnySource, 5)
		return err
	case "recv", "any", "ssend", "probe", "irecv":
		if r != 0 {
			return nil
		}
		switch how {
		case "recv":
			_, err = mpi.Recv(world, long, 1, 5)
		case "any":
			_, err = mpi.Recv(world, long, mpi.AnySource, 5)
		case "ssend":
			err = mpi.Ssend(world, long, 1, 5)
		case "probe":
			_, err = world.Probe(1, 5)
		case "irecv":
			var q mpi.Request
			if q, err = mpi.Irecv(world, long, 1, 5); err == nil {
				_, err = q.Wait()
			}
		}
		fmt.Fprintf(os.Stderr, "told: %v\n", err)
		return nil
	}
	return fmt.Errorf("nothing is left over in the way of %q", how)
}
