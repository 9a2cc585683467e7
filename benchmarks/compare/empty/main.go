// Empty does nothing on all ranks. So it takes the time of the start and the end of a job.
package main

import "github.com/gorun-mpi/gorun/mpi"

func main() {
	mpi.Run(func(*mpi.Comm) error { return nil })
}
