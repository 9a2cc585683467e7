// Program is the program of package ranktest, with the providers that each rank has.
package main

import "github.com/gorun-mpi/gorun/rpi/rdma/ranktest/ranks"

func main() { ranks.Main() }
