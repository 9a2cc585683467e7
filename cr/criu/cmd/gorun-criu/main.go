// Gorun-criu is gorun with one back-end more: -cr criu images whole processes with
// CRIU (https://criu.org). Its module takes gorun from the folders around it, so
// that it is installed from a checkout, not with go install PACKAGE@VERSION:
//
//	git clone https://github.com/gorun-mpi/gorun
//	cd gorun/cr/criu && go install ./cmd/gorun-criu
package main

import (
	"os"

	"github.com/gorun-mpi/gorun/cr/criu"
	"github.com/gorun-mpi/gorun/cr/native"
	"github.com/gorun-mpi/gorun/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:],
		native.Imager{},
		&criu.Backend{},
	))
}
