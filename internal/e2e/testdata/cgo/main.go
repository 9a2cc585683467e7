// Cgo is a program with C in it, which cannot be imaged.
package main

// static int two(void) { return 2; }
import "C"

import (
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	mpi.Run(func(c *mpi.Comm) error {
		_, err := fmt.Println(C.two())
		return err
	})
}
