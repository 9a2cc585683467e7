package device_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/device"
)

var axpy = device.NewKernel(device.Go("axpy", func(w device.Work, y, x []float64, a float64) {
	for i, end := w.Range(0); i < end; i++ {
		y[i] += a * x[i]
	}
}))

// must ends an example that fails.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func Example() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	x, y := device.NewArray[float64](4), device.NewArray[float64](4)
	copy(must(x.HostW()), []float64{1, 2, 3, 4})
	for range 3 {
		must(d.Run(axpy, []int{4}, nil, y.InOut(), x.In(), 0.5))
	}
	fmt.Println(must(y.Host()))
	// Output: [1.5 3 4.5 6]
}

func ExampleList() {
	infos := must(device.List())
	last := infos[len(infos)-1]
	fmt.Println(last.ID, last.Kind, last.Units > 0)
	// Output: cpu:0 cpu true
}

func ExampleOpen() {
	_, err := device.Open("gpu:7")
	fmt.Println(errors.Is(err, device.ErrNoDevice))
	d, err := device.Open("cpu:0")
	fmt.Println(err, d.Close())
	// Output:
	// true
	// <nil> <nil>
}

func ExampleDevice_Info() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	fmt.Println(d.Info().ID, d.Info().Name)
	// Output: cpu:0 goroutines
}

func ExampleDevice_Close() {
	d := must(device.Open("cpu:0"))
	y := device.NewArray[float64](1)
	fmt.Println(d.Close())
	_, err := d.Run(axpy, []int{1}, nil, y.InOut(), device.NewArray[float64](1).In(), 1)
	fmt.Println(errors.Is(err, device.ErrClosed))
	// Output:
	// <nil>
	// true
}

func ExampleDevice_Run() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	table := device.NewKernel(device.Go("table", func(w device.Work, t []int32) {
		for row := w.From[1]; row < w.To[1]; row++ {
			for col := w.From[0]; col < w.To[0]; col++ {
				t[row*w.Global[0]+col] = int32((row + 1) * (col + 1))
			}
		}
	}))
	t := device.NewArray[int32](3, 4)
	e, err := d.Run(table, []int{4, 3}, []int{2, 1}, t.Out())
	if err != nil {
		fmt.Println(err) // the arguments are wrong, or the kernel does not compile
	}
	if _, err := e.Wait(); err != nil {
		fmt.Println(err) // the kernel has failed
	}
	fmt.Println(must(t.Host()))
	// Output: [1 2 3 4 2 4 6 8 3 6 9 12]
}

// Two devices work on halves of an array. Each needs its neighbour's row.
func ExampleDevice_Fetch() {
	ds := must(device.Virtual(2))
	defer ds.Close()
	old, now := device.NewArray[int64](4), device.NewArray[int64](4)
	copy(must(old.HostW()), []int64{1, 2, 3, 4})
	parts := []*device.Array[int64]{old.Rows(0, 3), old.Rows(1, 4)}
	for v, d := range ds {
		if err := d.Fetch(parts[v].In()); err != nil {
			fmt.Println(err)
		}
	}
	for v, d := range ds {
		must(d.Run(step, []int{2}, nil, now.Rows(2*v, 2*v+2).Out(), parts[v].In(), 1, v, 0))
	}
	fmt.Println(must(now.Host()))
	// Output: [3 6 9 7]
}

func ExampleDevice_Stats() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	x, y := device.NewArray[float64](100), device.NewArray[float64](100)
	for range 10 {
		must(d.Run(axpy, []int{100}, nil, y.InOut(), x.In(), 1))
	}
	must(y.Host())
	fmt.Printf("%+v\n", d.Stats())
	// Output: {Runs:10 Sent:1600 Fetched:800}
}

func ExampleVirtual() {
	ds := must(device.Virtual(4))
	defer ds.Close()
	a := device.NewArray[int64](8)
	for v, d := range ds {
		must(d.Run(fill, []int{2}, nil, a.Rows(2*v, 2*v+2).Out(), 10*v))
	}
	fmt.Println(must(a.Host()))
	// Output: [0 1 10 11 20 21 30 31]
}

func ExampleDevices_Split() {
	ds := must(device.Virtual(4))
	defer ds.Close()
	fmt.Println(ds.Split(10))
	// Output: [0 3 5 8 10]
}

func ExampleDevices_Measure() {
	ds := must(device.Virtual(2))
	defer ds.Close()
	x, y := device.NewArray[float64](1000), device.NewArray[float64](1000)
	err := ds.Measure(func(d *device.Device) (device.Event, error) {
		return d.Run(axpy, []int{1000}, nil, y.InOut(), x.In(), 1)
	})
	fmt.Println(err, ds.Split(10)) // both are one device
	// Output: <nil> [0 5 10]
}

func ExampleDevices_Close() {
	ds := must(device.Virtual(3))
	fmt.Println(ds.Close())
	// Output: <nil>
}

func ExampleNewArray() {
	a := device.NewArray[float32](100, 20)
	fmt.Println(a.Dims())
	// Output: [100 20]
}

func ExampleArray_Dims() {
	a := device.NewArray[float32](100, 20).Rows(10, 15)
	fmt.Println(a.Dims())
	// Output: [5 20]
}

func ExampleArray_Rows() {
	a := device.NewArray[int32](3, 2)
	middle := must(a.Rows(1, 2).HostW())
	middle[0], middle[1] = 7, 8
	fmt.Println(must(a.Host()))
	// Output: [0 0 7 8 0 0]
}

func ExampleArray_Host() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	a := device.NewArray[int64](3)
	must(d.Run(fill, []int{3}, nil, a.Out(), 5))
	fmt.Println(must(a.Host())) // waits for the kernel
	// Output: [5 6 7]
}

func ExampleArray_HostW() {
	a := device.NewArray[int64](3)
	copy(must(a.HostW()), []int64{1, 2, 3}) // devices fetch it anew
	fmt.Println(must(a.Host()))
	// Output: [1 2 3]
}

func ExampleArray_Evict() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	a := device.NewArray[int64](3)
	must(d.Run(fill, []int{3}, nil, a.Out(), 5))
	fmt.Println(a.Evict()) // nothing of it is on a device any more
	fmt.Println(must(a.Host()))
	// Output:
	// <nil>
	// [5 6 7]
}

func ExampleArray_In() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	x, y := device.NewArray[float64](10), device.NewArray[float64](10)
	must(d.Run(axpy, []int{10}, nil, y.InOut(), x.In(), 2))
	must(x.Host()) // x is only read: it is valid here and there
	fmt.Println(d.Stats().Fetched)
	// Output: 0
}

func ExampleArray_Out() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	a := device.NewArray[int64](1000)
	must(d.Run(fill, []int{1000}, nil, a.Out(), 0)) // writes all of a
	fmt.Println(d.Stats().Sent)
	// Output: 0
}

func ExampleArray_InOut() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	first := device.NewKernel(device.Go("first", func(w device.Work, y []int64) { y[0]++ }))
	a := device.NewArray[int64](3)
	must(d.Run(first, []int{1}, nil, a.InOut())) // writes some of a
	fmt.Println(must(a.Host()))
	// Output: [1 0 0]
}

// cr.Register does this; no program needs to.
func ExampleArray_Image() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	a := device.NewArray[int64](3)
	must(d.Run(fill, []int{3}, nil, a.Out(), 5))
	ptr, fetch, _ := a.Image()
	fmt.Println(fetch(), *ptr.(*[]int64))
	// Output: <nil> [5 6 7]
}

const scaleSource = `
kernel void scale(global float *y, float a) {
	y[get_global_id(0)] *= a;
}`

// A kernel for devices of both kinds.
func ExampleNewKernel() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	scale := device.NewKernel(
		device.OpenCL("scale", scaleSource),
		device.Go("scale", func(w device.Work, y []float32, a float32) {
			for i, end := w.Range(0); i < end; i++ {
				y[i] *= a
			}
		}))
	y := device.NewArray[float32](2)
	copy(must(y.HostW()), []float32{1, 2})
	must(d.Run(scale, []int{2}, nil, y.InOut(), 1.5))
	fmt.Println(must(y.Host()))
	// Output: [1.5 3]
}

func ExampleDevice_Timed() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	d.Timed(false) // there are many, and they are small
	x, y := device.NewArray[float64](4), device.NewArray[float64](4)
	copy(must(x.HostW()), []float64{1, 2, 3, 4})
	for range 100 {
		must(d.Run(axpy, []int{4}, nil, y.InOut(), x.In(), 2))
	}
	fmt.Println(must(y.Host()))
	// Output: [200 400 600 800]
}

func ExampleAll() {
	ds := must(device.All())
	defer ds.Close()
	fmt.Println(len(ds) > 0)
	// Output: true
}

func ExampleMalleable() {
	ds := must(device.Virtual(2))
	defer ds.Close()
	l := device.Malleable(ds, 100)
	// state.Register("layout", l) restores it
	if was, changed := l.Changed(); changed {
		fmt.Println("devices are others than those of", was)
	}
	fmt.Println(l.Bounds())
	// Output: [0 50 100]
}

func ExampleLayout_Bounds() {
	ds := must(device.Virtual(4))
	defer ds.Close()
	l := device.Malleable(ds, 10)
	l.Bounds()[0] = 7 // a copy
	fmt.Println(l.Bounds())
	// Output: [0 3 5 8 10]
}

func ExampleLayout_Changed() {
	ds := must(device.Virtual(2))
	defer ds.Close()
	fmt.Println(device.Malleable(ds, 10).Changed()) // there was no restart
	// Output: [] false
}

// What cr.Register asks for.
func ExampleLayout_Image() {
	ds := must(device.Virtual(2))
	defer ds.Close()
	l := device.Malleable(ds, 10)
	_, fetch, restored := l.Image()
	fmt.Println(fetch(), restored(), l.Bounds()) // as if the image had just been read
	// Output: <nil> <nil> [0 5 10]
}

func ExampleLayout_Redeal() {
	ds := must(device.Virtual(2))
	defer ds.Close()
	l := device.Malleable(ds, 100)
	_, changed := l.Redeal() // after ds.Measure
	fmt.Println(changed)
	// Output: false
}

func ExampleOpenCL() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	scale := device.NewKernel(device.OpenCL("scale", scaleSource, "-cl-fast-relaxed-math"))
	y := device.NewArray[float32](2)
	_, err := d.Run(scale, []int{2}, nil, y.InOut(), float32(2))
	fmt.Println(errors.Is(err, device.ErrNoBody)) // goroutines run no OpenCL
	// Output: true
}

const vaddSource = `
extern "C" __global__ void vadd(double *y, const double *x) {
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	y[i] += x[i];
}`

func ExampleCUDA() {
	d := must(device.Open("cpu:0")) // or "cuda:0", where there is one
	defer d.Close()
	vadd := device.NewKernel(
		device.CUDA("vadd", vaddSource, "--use_fast_math"),
		device.Go("vadd", func(w device.Work, y, x []float64) {
			for i, end := w.Range(0); i < end; i++ {
				y[i] += x[i]
			}
		}))
	x, y := device.NewArray[float64](2), device.NewArray[float64](2)
	copy(must(x.HostW()), []float64{1, 2})
	must(d.Run(vadd, []int{2}, nil, y.InOut(), x.In()))
	fmt.Println(must(y.Host()))
	// Output: [1 2]
}

func ExampleGo() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	square := device.NewKernel(device.Go("square", func(w device.Work, y []int32) {
		for i, end := w.Range(0); i < end; i++ {
			y[i] = int32(i * i)
		}
	}))
	y := device.NewArray[int32](5)
	must(d.Run(square, []int{5}, nil, y.Out()))
	fmt.Println(must(y.Host()))
	// Output: [0 1 4 9 16]
}

func ExampleLocal() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	reverse := device.NewKernel(device.Go("reverse", func(w device.Work, y []int32, t []int32) {
		n := w.Local[0]
		for group := w.From[0]; group < w.To[0]; group += n {
			copy(t, y[group:group+n])
			for i := range n {
				y[group+i] = t[n-1-i]
			}
		}
	}))
	y := device.NewArray[int32](6)
	copy(must(y.HostW()), []int32{1, 2, 3, 4, 5, 6})
	must(d.Run(reverse, []int{6}, []int{3}, y.InOut(), device.Local[int32](3)))
	fmt.Println(must(y.Host()))
	// Output: [3 2 1 6 5 4]
}

func ExampleEvent_Wait() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	e := must(d.Run(fill, []int{10}, nil, device.NewArray[int64](10).Out(), 0))
	times, err := e.Wait()
	fmt.Println(err, times.End.Sub(times.Start) < time.Hour)
	// Output: <nil> true
}

func ExampleEvent_WaitContext() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	release := make(chan struct{})
	e := must(d.Run(device.NewKernel(device.Go("endless", func(device.Work) { <-release })), []int{1}, nil))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := e.WaitContext(ctx)
	fmt.Println(err)
	close(release)
	// Output: device cpu:0: waiting for kernel endless: context canceled
}

func ExampleEvent_Completed() {
	var nothing device.Event
	fmt.Println(nothing.Completed())
	// Output: true
}

func ExampleEvent_Done() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	e := must(d.Run(fill, []int{10}, nil, device.NewArray[int64](10).Out(), 0))
	select {
	case <-e.Done():
		fmt.Println("over")
	case <-time.After(time.Minute):
		fmt.Println("late")
	}
	// Output: over
}

func ExampleEvent_OnDone() {
	d := must(device.Open("cpu:0"))
	defer d.Close()
	e := must(d.Run(fill, []int{10}, nil, device.NewArray[int64](10).Out(), 0))
	result := make(chan error)
	e.OnDone(func(err error) { result <- err })
	fmt.Println(<-result)
	// Output: <nil>
}
