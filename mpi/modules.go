package mpi

// The transports that every program can use. A new one is one line here.
import (
	_ "github.com/gorun-mpi/gorun/rpi/rdma"
	_ "github.com/gorun-mpi/gorun/rpi/shm"
	_ "github.com/gorun-mpi/gorun/rpi/tcp"
)
