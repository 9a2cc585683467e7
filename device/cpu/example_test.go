package cpu_test

import (
	"context"
	"fmt"

	"github.com/gorun-mpi/gorun/device/cpu"
)

func Example() {
	var p cpu.Provider
	infos, err := p.List()
	fmt.Println(p.Name(), len(infos), err)
	d, err := p.Open(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	m, err := d.Alloc(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	d.Write(m, 1, []byte{7, 8})
	got := make([]byte, 3)
	t, err := d.Read(got, m, 0)
	if err == nil {
		_, err = d.Wait(context.Background(), t)
	}
	fmt.Println(got, err)
	// Output:
	// cpu 1 <nil>
	// [0 7 8] <nil>
}
