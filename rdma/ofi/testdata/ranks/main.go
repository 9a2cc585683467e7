// Ranks is the program of package ranktest, with libfabric.
package main

import (
	_ "github.com/gorun-mpi/gorun/rdma/ofi"
	"github.com/gorun-mpi/gorun/rpi/rdma/ranktest/ranks"
)

func main() { ranks.Main() }
