// Gorun runs parallel programs that speak MPI through this module, and
// checkpoints and restarts them.
//
//	gorun -np 4 -cr ./solver          run, ready to be checkpointed
//	gorun checkpoint JOB              take a snapshot of a running job
//	gorun restart latest              go on from the newest snapshot
//
// 'gorun help' lists the commands, 'gorun help COMMAND' the flags of each.
package main

import (
	"os"

	"github.com/gorun-mpi/gorun/cr/native"
	"github.com/gorun-mpi/gorun/internal/cli"
)

// The back-ends that image whole processes: one line each, the first is the default.
func main() {
	os.Exit(cli.Main(os.Args[1:],
		native.Imager{},
	))
}
