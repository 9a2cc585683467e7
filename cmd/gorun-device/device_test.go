package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/cltest"
	"github.com/gorun-mpi/gorun/device"
)

// program makes this process one that finds gorun-device and the OpenCL libraries that load fast. It returns their devices.
func program(t *testing.T) (ids []string) {
	cltest.Need(t)
	env, err := cltest.Environment(t.TempDir(), slices.DeleteFunc(cltest.Libraries(), func(name string) bool { return name == "rusticl" })...)
	fail(t, err)
	for _, setting := range env {
		key, value, _ := strings.Cut(setting, "=")
		t.Setenv(key, value)
	}
	t.Setenv("GORUN_DEVICE_TEST", "1")
	self, err := os.Executable()
	fail(t, err)
	t.Setenv("GORUN_DEVICE_SERVER", self)
	all, err := device.List()
	fail(t, err)
	for _, info := range all {
		if strings.HasPrefix(info.ID, "opencl:") {
			ids = append(ids, info.ID)
		}
	}
	if len(ids) == 0 {
		t.Skip("rusticl is the only library here; install pocl-opencl-icd or oclgrind")
	}
	return ids
}

func opened(t *testing.T, id string) *device.Device {
	d, err := device.Open(id)
	fail(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

var blend = device.NewKernel(
	device.OpenCL("blend", `
		kernel void blend(global int *y, global const int *x, int a) {
			size_t i = get_global_id(0);
			y[i] = y[i] * 3 + x[i] + a;
		}`),
	device.Go("blend", func(w device.Work, y, x []int32, a int32) {
		for i, end := w.Range(0); i < end; i++ {
			y[i] = y[i]*3 + x[i] + a
		}
	}))

// TestArrays runs kernels on parts of arrays on all devices, OpenCL's and Go's, with reads and writes of the host between,
// and compares with plain slices.
func TestArrays(t *testing.T) {
	const rows, columns = 12, 4
	devices := []*device.Device{opened(t, "cpu:0")}
	for _, id := range program(t) {
		devices = append(devices, opened(t, id))
	}
	r := rand.New(rand.NewPCG(1, 2))
	arrays := []*device.Array[int32]{device.NewArray[int32](rows, columns), device.NewArray[int32](rows, columns)}
	model := [2][rows * columns]int32{}
	for i := range int32(60) {
		a := r.IntN(2)
		from := 4 * r.IntN(rows/4) // PoCL compiles a kernel again for each number of items
		to := from + 4 + 4*r.IntN((rows-from)/4)
		switch part := arrays[a].Rows(from, to); r.IntN(4) {
		case 0:
			host, err := part.HostW()
			fail(t, err)
			host[0] += i
			model[a][from*columns] += i
		case 1:
			host, err := part.Host()
			fail(t, err)
			if want := model[a][from*columns : to*columns]; !slices.Equal(host, want) {
				t.Fatalf("step %d: rows %d to %d are %v, want %v", i, from, to, host, want)
			}
		default:
			d := devices[r.IntN(len(devices))]
			_, err := d.Run(blend, []int{(to - from) * columns}, nil, part.InOut(), arrays[1-a].Rows(from, to).In(), i)
			fail(t, err)
			for j := from * columns; j < to*columns; j++ {
				model[a][j] = model[a][j]*3 + model[1-a][j] + i
			}
		}
	}
	for a := range arrays {
		host, err := arrays[a].Host()
		fail(t, err)
		if !slices.Equal(host, model[a][:]) {
			t.Errorf("array %d is %v, want %v", a, host, model[a])
		}
	}
}

// TestBuildError has the compiler's words reach the program, which goes on.
func TestBuildError(t *testing.T) {
	d := opened(t, program(t)[0])
	x, y := device.NewArray[int32](8), device.NewArray[int32](8)
	_, err := d.Run(device.NewKernel(device.OpenCL("bad", "kernel void bad(global int *x) {\n\tx[0] = nothing;\n}")), []int{8}, nil, x.Out())
	var e *device.BuildError
	if !errors.As(err, &e) || !strings.Contains(e.Log, "nothing") {
		t.Errorf("%v", err)
	}
	_, err = d.Run(blend, []int{8}, nil, y.InOut(), x.In(), 5)
	if err == nil {
		_, err = y.Host()
	}
	fail(t, err)
}

// TestArguments has kernels in OpenCL C alone be given a wrong number of arguments, or wrong ones: Run says so, and the device goes on.
func TestArguments(t *testing.T) {
	d := opened(t, program(t)[0])
	x, y := device.NewArray[int32](8), device.NewArray[int32](8)
	k := device.NewKernel(device.OpenCL("blend", `
		kernel void blend(global int *y, global const int *x, int a) {
			y[get_global_id(0)] = x[get_global_id(0)] + a;
		}`))
	for _, args := range [][]any{{y.Out(), x.In()}, {y.Out(), x.In(), int32(1), int32(2)}} {
		_, err := d.Run(k, []int{8}, nil, args...)
		if want := fmt.Sprintf("kernel blend: wrong argument: %d arguments, the kernel takes 3", len(args)); !errors.Is(err, device.ErrArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d arguments: %v", len(args), err)
		}
	}
	for says, args := range map[string][]any{
		"wrong argument 2: it is a number of 8 bytes, the kernel's parameter one of 4: convert it": {y.Out(), x.In(), int64(1)},
		"wrong argument 2: it is memory, the kernel's parameter is a number of 4 bytes":            {y.Out(), x.In(), x.In()},
		"wrong argument 0: it is a number, the kernel's parameter is memory: pass an array":        {int32(1), x.In(), int32(1)},
	} {
		if _, err := d.Run(k, []int{8}, nil, args...); !errors.Is(err, device.ErrArgument) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not said: %v", says, err)
		}
	}
	_, err := d.Run(k, []int{8}, nil, y.Out(), x.In(), int32(5))
	fail(t, err)
	v, err := y.Host()
	fail(t, err)
	if v[7] != 5 {
		t.Errorf("%v", v)
	}
}

// TestWildStore has a kernel end its offload process. The rank lives, and is told.
func TestWildStore(t *testing.T) {
	ids := program(t)
	all, _ := device.List()
	i := slices.IndexFunc(all, func(i device.Info) bool { return strings.HasPrefix(i.Name, "basic") })
	if i < 0 {
		t.Skip("a wild store kills the process on PoCL only, which is not here; there are ", ids)
	}
	d := opened(t, all[i].ID)
	x := device.NewArray[int32](8)
	_, err := d.Run(device.NewKernel(device.OpenCL("wild", "kernel void wild(global int *x, long at) { x[at] = 1; }")), []int{1}, nil, x.InOut(), int64(1)<<45)
	if err == nil {
		_, err = x.Host()
	}
	if !errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), all[i].ID) {
		t.Errorf("after a wild store: %v", err)
	}
}

func fail(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
