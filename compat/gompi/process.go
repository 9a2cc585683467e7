package mpi

import (
	"errors"
	"fmt"
	"os"

	gorun "github.com/gorun-mpi/gorun/mpi"
)

// IsOn reports whether Start was called; it stays true after Stop. (MPI-4.1, chapter 11.2.3)
func IsOn() bool { return gorun.Initialized() }

// Start makes this process a rank of its job. A program started without gorun is a job of one rank. threaded makes no
// difference: goroutines may always call. (MPI-4.1, chapter 11.2.1)
func Start(threaded bool) { must(nil, gorun.Init()) }

// Stop waits until all ranks have called it, and ends communication. A message that Mprobe has taken and nobody has
// received is an error here. (MPI-4.1, chapter 11.2.2)
func Stop() { must(nil, gorun.Finalize()) }

// WorldRank returns the rank of this process in the world. (MPI-4.1, chapter 7.4.1)
func WorldRank() (rank int) { return world().Rank() }

// WorldSize returns the number of ranks of the job. (MPI-4.1, chapter 7.4.1)
func WorldSize() (size int) { return world().Size() }

// WorldTime returns the time in seconds since some moment in the past. (MPI-4.1, chapter 9.6, MPI_Wtime)
func WorldTime() float64 { return gorun.Wtime() }

// errStart is what calls before Start end with.
var errStart = errors.New("mpi: call Start first")

// world returns the communicator of all ranks, and ends a program that has not called Start.
func world() *gorun.Comm {
	w := gorun.World()
	if w == nil {
		must(nil, errStart)
	}
	return w
}

// must ends the job if a call has failed. A rank that fails because another one has died just exits: Abort would be a
// decision of the program, after which gorun restarts nothing.
func must(c *gorun.Comm, err error) {
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	if gorun.Initialized() && (errors.Is(err, gorun.ErrPeerFailed) || errors.Is(err, gorun.ErrAborted)) {
		os.Exit(1)
	}
	gorun.Abort(c, 1)
}
