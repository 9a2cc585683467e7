package device_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gorun-mpi/gorun/device"
)

// Of these tests: they run where there is no OpenCL.
var add = device.NewKernel(device.OpenCL("add", `
kernel void add(global long *y, long c) {
	y[get_global_id(0)] += c;
}`))

// moving opens a device, adds 1 to an array there, calls f, adds 10, and prints the array.
func moving(f func(d *device.Device, ctx context.Context, path string)) {
	d := must(device.Open("opencl:0"))
	defer d.Close()
	folder := must(os.MkdirTemp("", "example"))
	defer os.RemoveAll(folder)
	a := device.NewArray[int64](3)
	must(d.Run(add, []int{3}, nil, a.InOut(), int64(1)))
	f(d, context.Background(), filepath.Join(folder, "capture"))
	must(d.Run(add, []int{3}, nil, a.InOut(), int64(10)))
	fmt.Println(must(a.Host()))
}

func ExampleDevice_Pause() {
	moving(func(d *device.Device, ctx context.Context, path string) {
		fmt.Println(d.Pause(ctx))
		// The device stands still.
		fmt.Println(d.Resume(ctx))
	})
	c := must(device.Open("cpu:0"))
	fmt.Println(errors.Is(c.Pause(context.Background()), device.ErrFixed))
	// Output:
	// <nil>
	// <nil>
	// [11 11 11]
	// true
}

func ExampleDevice_Capture() {
	moving(func(d *device.Device, ctx context.Context, path string) {
		if err := d.Pause(ctx); err != nil {
			fmt.Println(err)
		}
		s := must(d.Capture(ctx, path, false)) // the device is still of use
		fmt.Println(s.Wait(ctx), d.Resume(ctx))
	})
	// Output:
	// <nil> <nil>
	// [11 11 11]
}

func ExampleSnapshot_Wait() {
	moving(func(d *device.Device, ctx context.Context, path string) {
		if err := d.Pause(ctx); err != nil {
			fmt.Println(err)
		}
		s := must(d.Capture(ctx, filepath.Join(path, "no such folder"), true))
		fmt.Println(s.Wait(ctx) != nil) // the device goes on
	})
	// Output:
	// true
	// [11 11 11]
}

func ExampleDevice_Resume() {
	moving(func(d *device.Device, ctx context.Context, path string) {
		fmt.Println(d.Pause(ctx), d.Resume(ctx))
	})
	// Output:
	// <nil> <nil>
	// [11 11 11]
}

func ExampleDevice_Restore() {
	moving(func(d *device.Device, ctx context.Context, path string) {
		s := must(d.SwapOut(ctx, path))
		fmt.Println(d.Restore(ctx, s, "opencl:1"), d.Info().ID)
		fmt.Println(d.Resume(ctx))
	})
	// Output:
	// <nil> opencl:1
	// <nil>
	// [11 11 11]
}

func ExampleDevice_SwapOut() {
	moving(func(d *device.Device, ctx context.Context, path string) {
		s := must(d.SwapOut(ctx, path))
		// Its memory is free for others.
		fmt.Println(d.SwapIn(ctx, s, "opencl:0"))
	})
	// Output:
	// <nil>
	// [11 11 11]
}

func ExampleDevice_SwapIn() {
	moving(func(d *device.Device, ctx context.Context, path string) {
		s := must(d.SwapOut(ctx, path))
		fmt.Println(d.SwapIn(ctx, s, "opencl:7") != nil) // there is no such device
		fmt.Println(d.SwapIn(ctx, s, "opencl:1"))
	})
	// Output:
	// true
	// <nil>
	// [11 11 11]
}

func ExampleDevice_Migrate() {
	moving(func(d *device.Device, ctx context.Context, path string) {
		fmt.Println(d.Migrate(ctx, "opencl:1"), d.Info().ID)
	})
	// Output:
	// <nil> opencl:1
	// [11 11 11]
}
