package opencl_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/device/opencl"
)

func kernel(name string) *device.Kernel { return device.NewKernel(device.OpenCL(name, "kernel "+name)) }

var add = kernel("add")

func open(t testing.TB) *device.Device {
	t.Helper()
	d, err := device.Open("opencl:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// through adds to an array on devices in turn, runs times on each, and looks at the result.
func through(t interface{ Fatalf(string, ...any) }, n, runs int, ds []*device.Device) {
	a := device.NewArray[int64](n)
	h, err := a.HostW()
	for i := range h {
		h[i] = int64(i)
	}
	for _, d := range ds {
		for i := 0; i < runs && err == nil; i++ {
			_, err = d.Run(add, []int{min(n, 1000)}, nil, a.InOut(), int64(i))
		}
	}
	sum := int64(len(ds) * runs * (runs - 1) / 2)
	if err == nil {
		h, err = a.Host()
	}
	for i, x := range h {
		if err != nil || x != int64(i) && i >= 1000 || i < 1000 && x != int64(i)+sum {
			t.Fatalf("element %d of %d is %d, %v; %d was added", i, n, x, err, sum)
		}
	}
}

// What goes through the ring comes back, in order, whatever the sizes are.
func TestArraysThroughTheRing(t *testing.T) {
	d, other := open(t), open(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, 1<<15)).Draw(t, "elements")
		turns := rapid.SliceOfN(rapid.SampledFrom([]*device.Device{d, other}), 1, 3).Draw(t, "devices")
		through(t, n, rapid.IntRange(1, 4).Draw(t, "runs"), turns)
	})
}

// There may be more data than staging has room for, and more commands than slots.
func TestMoreThanThereIsRoomFor(t *testing.T) {
	d, other := open(t), open(t)
	through(t, 3<<20+5, 1, []*device.Device{d, other, d})
	through(t, 10, 1200, []*device.Device{d, other})
}

func TestNamesOfErrors(t *testing.T) {
	d := open(t)
	for name, try := range map[string]struct {
		class error
		says  string
		err   func() error
	}{
		"no such device": {device.ErrNoDevice, "no such device", func() error { _, err := device.Open("opencl:5"); return err }},
		"memory": {device.ErrMemory, "no more than 1 GiB", func() error {
			_, err := d.Run(add, []int{1}, nil, device.NewArray[int64](1<<28).Out(), int64(1))
			return err
		}},
		"Go only": {device.ErrNoBody, "GORUN_DEVICE", func() error {
			_, err := d.Run(device.NewKernel(device.Go("go", func(device.Work) {})), []int{1}, nil)
			return err
		}},
	} {
		if err := try.err(); !errors.Is(err, try.class) || !strings.Contains(err.Error(), try.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := d.Run(device.NewKernel(device.OpenCL("typo", "a mistake")), []int{1}, nil)
	var build *device.BuildError
	if !errors.As(err, &build) || build.Kernel != "typo" || build.Device != "opencl:0" || !strings.Contains(err.Error(), "line 1: error: a mistake") {
		t.Errorf("a source with a mistake: %v", err)
	}
}

// A process that never begins is given up, by name, and the device may be opened anew.
func TestProcessThatNeverBegins(t *testing.T) {
	t.Setenv("GORUN_TEST_SILENT", "1")
	t.Setenv("GORUN_DEVICE_OPEN", "20ms")
	_, err := device.Open("opencl:1")
	if err == nil || !errors.Is(err, device.ErrLost) {
		t.Fatal(err)
	}
	for _, says := range []string{"device opencl:1: its offload process, pid ", "has not begun within 20ms", "GORUN_DEVICE_OPEN=10m", " list tries it alone"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not said: %v", says, err)
		}
	}
	os.Unsetenv("GORUN_TEST_SILENT")
	os.Unsetenv("GORUN_DEVICE_OPEN") // t.Setenv sets them back
	open(t)
}

func TestArgumentsArrive(t *testing.T) {
	d := open(t)
	args := []any{device.Local[float32](3)}
	for i := range 25 {
		args = append(args, int16(i))
	}
	e, err := d.Run(kernel("many"), []int{1}, []int{1}, args...)
	if err == nil {
		var times device.Times
		times, err = e.Wait()
		if took := times.End.Sub(times.Start); took.Nanoseconds() != 2000 {
			t.Errorf("it took %v", took)
		}
	}
	if err != nil {
		t.Error(err)
	}
	if _, err := d.Run(kernel("many"), []int{1}, nil, append(args, int16(9))...); !errors.Is(err, device.ErrArgument) {
		t.Errorf("one more: %v", err)
	}
}

// A failed kernel, and a process that dies, end their device with an error that names it. Other devices go on.
func TestFailuresStopTheDevice(t *testing.T) {
	for name, class := range map[string]error{"fail": device.ErrKernel, "die": device.ErrLost} {
		t.Run(name, func(t *testing.T) {
			d, a := open(t), device.NewArray[int64](10)
			e, err := d.Run(kernel(name), []int{1}, nil, a.InOut())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Wait(); !errors.Is(err, class) || !strings.Contains(err.Error(), "device opencl:0") {
				t.Errorf("the event: %v", err)
			}
			if _, err := a.Host(); !errors.Is(err, class) {
				t.Errorf("the array: %v", err)
			}
			if _, err := d.Run(add, []int{1}, nil, device.NewArray[int64](1).InOut(), int64(1)); !errors.Is(err, class) {
				t.Errorf("another kernel: %v", err)
			}
			other := device.NewArray[int64](1)
			if _, err := open(t).Run(add, []int{1}, nil, other.InOut(), int64(1)); err != nil {
				t.Errorf("another device: %v", err)
			}
		})
	}
}

// A ring whose process has died while it is full does not hold its callers.
func TestDeathWithAFullRing(t *testing.T) {
	d, a := open(t), device.NewArray[int64](1<<21)
	if _, err := d.Run(kernel("die"), []int{1}, nil, a.InOut()); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 0; err == nil && i < 5000; i++ {
		_, err = d.Run(add, []int{1}, nil, a.InOut(), int64(1))
	}
	if !errors.Is(err, device.ErrLost) {
		t.Errorf("after the death: %v", err)
	}
}

func TestClosedDevice(t *testing.T) {
	d, err := device.Open("opencl:0")
	if err != nil {
		t.Fatal(err)
	}
	a := device.NewArray[int64](4)
	e, err := d.Run(add, []int{4}, nil, a.InOut(), int64(3))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if _, err := e.Wait(); !errors.Is(err, device.ErrClosed) || !e.Completed() {
		t.Errorf("its event: %v", err)
	}
	if _, err := a.Host(); !errors.Is(err, device.ErrClosed) {
		t.Errorf("its array: %v", err)
	}
	b := device.NewArray[int64](4)
	for _, k := range []*device.Kernel{add, kernel("many")} {
		if _, err := d.Run(k, []int{4}, nil, b.InOut(), int64(3)); !errors.Is(err, device.ErrClosed) {
			t.Errorf("then: %v", err)
		}
	}
}

// A device that is closed while it is swapped out holds nobody who waits for room.
func TestClosedWhileSwappedOut(t *testing.T) {
	d, a := open(t), device.NewArray[int64](4)
	if _, err := d.Run(add, []int{4}, nil, a.InOut(), int64(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.SwapOut(forever, filepath.Join(t.TempDir(), "out")); err != nil {
		t.Fatal(err)
	}
	full, over := make(chan bool), make(chan error)
	go func() {
		for i := 0; ; i++ {
			if i == 400 {
				close(full) // nearly: the test does not depend on when the ring is
			}
			if _, err := d.Run(add, []int{4}, nil, a.InOut(), int64(1)); err != nil {
				over <- err
				return
			}
		}
	}()
	<-full
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := <-over; !errors.Is(err, device.ErrClosed) {
		t.Errorf("who waited was told %v", err)
	}
}

func Example() {
	var p opencl.Provider
	infos, err := p.List() // of the gorun-device that there is
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := p.Open(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Name(), len(infos), d.Info().ID, d.Close())
	// Output: opencl 2 opencl:0 <nil>
}
