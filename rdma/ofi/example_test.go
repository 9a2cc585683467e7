package ofi_test

import (
	"fmt"

	"github.com/gorun-mpi/gorun/rdma/ofi"
)

func ExampleProvider_List() {
	devices, err := ofi.Provider{}.List()
	if err != nil {
		fmt.Println("why there are none:", err)
		return
	}
	for _, d := range devices {
		fmt.Println(d.Name, d.Detail) // shm libfabric 1.17, provider shm, domain shm
	}
}

func ExampleProvider_Open() {
	for _, name := range []string{"shm", "net/127.0.0.1"} {
		d, err := ofi.Provider{}.Open(name)
		if err != nil {
			fmt.Println("why not:", err)
			return
		}
		fmt.Println(d.Info().Manual) // true: libfabric's providers in software move bytes while their process polls
		if err := d.Close(); err != nil {
			fmt.Println(err)
		}
	}
}
