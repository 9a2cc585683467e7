package provider_test

import (
	"fmt"

	"github.com/gorun-mpi/gorun/device/provider"
)

func ExampleWork_Range() {
	w := provider.Work{From: [3]int{4}, To: [3]int{6}}
	for i, end := w.Range(0); i < end; i++ {
		fmt.Println(i)
	}
	// Output:
	// 4
	// 5
}

func ExampleBuildError() {
	err := &provider.BuildError{Kernel: "scale", Device: "opencl:0", Log: "line 3: error: use of undeclared identifier 'b'"}
	fmt.Println(err)
	// Output:
	// device opencl:0: kernel scale does not compile:
	// line 3: error: use of undeclared identifier 'b'
}
