package opencl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/cltest"
	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

// TestMain runs the tests in a process that has the libraries' environment.
func TestMain(m *testing.M) {
	if os.Getenv("OPENCL_TEST") != "" {
		os.Exit(m.Run())
	}
	os.Exit(again())
}

func again() int {
	dir, err := os.MkdirTemp("", "gorun-opencl-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.Env, err = cltest.Environment(dir, cltest.Libraries()...); err != nil {
		panic(err)
	}
	c.Env = append(c.Env, "OPENCL_TEST=1")
	if c.Run() != nil {
		return 1
	}
	return 0
}

// devices loads OpenCL and tells the devices.
func devices(t *testing.T, o Options) []driver.Device {
	t.Helper()
	cltest.Need(t)
	l, err := Load(o)
	must(t, err)
	found, err := l.Devices()
	must(t, err)
	if len(found) == 0 {
		t.Fatal("the libraries have no device")
	}
	return found
}

// TestBothWays has the loader and the vendors' own tables tell the same devices.
func TestBothWays(t *testing.T) {
	var with, without []string
	for _, d := range devices(t, Options{}) {
		with = append(with, d.Info().Platform+" "+d.Info().Name)
	}
	for _, d := range devices(t, Options{Loader: "none"}) {
		without = append(without, d.Info().Platform+" "+d.Info().Name)
	}
	slices.Sort(with)
	slices.Sort(without)
	if !slices.Equal(with, without) {
		t.Errorf("by libOpenCL %q\nby vendor  %q", with, without)
	}
	t.Log(strings.Join(with, "\n"))
}

// TestDevices needs a working device of each library, by either way.
func TestDevices(t *testing.T) {
	for _, way := range []string{"", "none"} {
		for _, d := range devices(t, Options{Loader: way}) {
			t.Run(strings.Fields(d.Info().Name)[0], func(t *testing.T) { work(t, d) })
		}
	}
}

const source = `
__kernel void add(__global int *out, __global const int *in, const int n, __local int *scratch) {
	int i = get_global_id(0);
	scratch[get_local_id(0)] = in[i] + n;
	barrier(CLK_LOCAL_MEM_FENCE);
	out[i] = scratch[get_local_id(0)];
}
`

// work goes through all that a queue can do.
func work(t *testing.T, d driver.Device) {
	q, err := d.Open()
	must(t, err)
	defer func() { must(t, q.Close()) }()
	const n = 64
	a, err := q.Alloc(4 * n)
	must(t, err)
	b, err := q.Alloc(4 * n)
	must(t, err)
	must(t, q.Fill(a, 0, 4*n))
	must(t, q.Write(a, 4, words(7, 8)))
	p, err := q.Build(source, "")
	must(t, err)
	k, err := p.Kernel("add")
	must(t, err)
	params(t, k)
	args := []driver.Arg{{Mem: b}, {Mem: a}, {Value: words(100)}, {Local: 4 * 16}}
	e, err := q.Launch(k, []int{n}, []int{16}, args, true)
	must(t, err)
	must(t, q.Copy(a, 0, b, 4, 8))
	must(t, q.Finish())
	begin, end, err := e.Times()
	if err != nil || end < begin || end == 0 {
		t.Errorf("ran from %v to %v, %v", begin, end, err)
	}
	must(t, e.Close())
	got := make([]byte, 16)
	must(t, q.Read(got, b, 0))
	must(t, q.Finish())
	if want := words(100, 107, 108, 100); !bytes.Equal(got, want) {
		t.Errorf("b begins with %v, want %v", got, want)
	}
	must(t, q.Read(got, a, 0))
	must(t, q.Finish())
	if want := words(107, 108, 8, 0); !bytes.Equal(got, want) {
		t.Errorf("a begins with %v, want %v", got, want)
	}
	refusals(t, q, p, k, args)
	must(t, k.Close())
	must(t, p.Close())
	must(t, q.Free(a))
	must(t, q.Free(b))
}

// params compares what the library tells of the kernel with its source.
func params(t *testing.T, k driver.Kernel) {
	t.Helper()
	want := []driver.Param{
		{Name: "out", Type: "int*", Space: driver.Global},
		{Name: "in", Type: "int*", Space: driver.Global, Const: true},
		{Name: "n", Type: "int", Space: driver.Private, Bytes: 4},
		{Name: "scratch", Type: "int*", Space: driver.Local},
	}
	if got := k.Params(); !slices.Equal(got, want) {
		t.Errorf("parameters %+v\nwant       %+v", got, want)
	}
}

// refusals tries what must fail, each with a word about what it is.
func refusals(t *testing.T, q driver.Queue, p driver.Program, k driver.Kernel, args []driver.Arg) {
	swapped := []driver.Arg{args[0], args[1], args[3], args[2]}
	value := []driver.Arg{{Value: make([]byte, 8)}, args[1], args[2], args[3]}
	launch := func(global, local []int, args []driver.Arg) error {
		_, err := q.Launch(k, global, local, args, false)
		return err
	}
	_, noKernel := p.Kernel("sub")
	_, noBuild := q.Build("__kernel void bad(__global int *a) { a[0] = nothing; }", "")
	_, noRoom := q.Alloc(1 << 50)
	for _, c := range []struct {
		err  error
		want string
	}{
		{launch([]int{64}, []int{16}, args[:3]), "takes 4 arguments"},
		{launch([]int{64}, []int{16}, swapped), "argument 2 (n): the parameter is private"},
		{launch([]int{64}, []int{16}, value), "argument 0 (out): the parameter is global"},
		{launch([]int{60}, []int{16}, args), "multiple of local"},
		{launch([]int{64}, []int{16, 1}, args), "same 1 to 3 dimensions"},
		{noKernel, "the program has add"},
		{noBuild, "nothing"},
		{noRoom, "1125899906842624 bytes"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error %v, want %q in it", c.err, c.want)
		}
	}
	if b := new(driver.BuildError); !errors.As(noBuild, &b) {
		t.Errorf("a program with an error: %T", noBuild)
	}
	if !errors.Is(noRoom, driver.ErrMemory) {
		t.Error(noRoom)
	}
}

func TestNothingThere(t *testing.T) {
	_, err := Load(Options{Loader: "none", Vendors: t.TempDir()})
	if err == nil {
		t.Skip("NVIDIA's library is on this machine")
	}
	if !strings.Contains(err.Error(), "install") || !strings.Contains(err.Error(), "libnvidia-opencl") {
		t.Error(err)
	}
}

func words(v ...int32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.NativeEndian.AppendUint32(b, uint32(x))
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
