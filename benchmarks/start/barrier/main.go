// Barrier has all ranks meet once, so that they have connections.
package main

import "github.com/gorun-mpi/gorun/mpi"

func main() {
	mpi.Run(func(c *mpi.Comm) error { return mpi.Barrier(c) })
}
