package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/cudatest"
	"github.com/gorun-mpi/gorun/device"
)

// cudaProgram makes this process one that finds gorun-device with the made-up CUDA, and no OpenCL.
func cudaProgram(t *testing.T) (libraries string) {
	libraries = cudatest.Build(t)
	self, err := os.Executable()
	fail(t, err)
	t.Setenv("LD_LIBRARY_PATH", libraries)
	t.Setenv("OCL_ICD_VENDORS", t.TempDir())
	t.Setenv("GORUN_DEVICE_TEST", "1")
	// The list is kept by path: other tests' is another.
	server := filepath.Join(t.TempDir(), "gorun-device")
	fail(t, os.Symlink(self, server))
	t.Setenv("GORUN_DEVICE_SERVER", server)
	return libraries
}

var vadd = device.NewKernel(device.CUDA("vadd", cudatest.Source), device.Go("vadd", func(w device.Work, y, x []float64, a float64) {
	for i, end := w.Range(0); i < end; i++ {
		y[i] += a * x[i]
	}
}))

var next = device.NewKernel(device.CUDA("next", cudatest.Source))

// TestCUDA has a program's session go through the ring to the made-up CUDA: computed in turns with goroutines, moved to another device and back while
// commands wait.
func TestCUDA(t *testing.T) {
	cudaProgram(t)
	all, err := device.List()
	fail(t, err)
	if len(all) != 3 || all[0].ID != "cuda:0" || all[1].ID != "cuda:1" || all[1].Name != "Made Up 1" || all[2].ID != "cpu:0" {
		t.Fatalf("devices %+v", all)
	}
	ds, err := device.Virtual(3) // goroutines are not chosen
	fail(t, err)
	if id := ds[1].Info().ID; id != "cuda:1/1" {
		t.Error(id)
	}
	fail(t, ds.Close())
	d, host := opened(t, "cuda:0"), opened(t, "cpu:0")
	const n = 100
	x, y := device.NewArray[float64](n), device.NewArray[float64](n)
	v, err := x.HostW()
	fail(t, err)
	for i := range v {
		v[i] = float64(i)
	}
	for i, on := range []*device.Device{d, host, d} {
		_, err := on.Run(vadd, []int{n}, nil, y.InOut(), x.In(), i+1)
		fail(t, err)
	}
	fail(t, d.Migrate(t.Context(), "cuda:1"))
	if id := d.Info().ID; id != "cuda:1" {
		t.Errorf("moved to %s", id)
	}
	out, err := d.SwapOut(t.Context(), filepath.Join(t.TempDir(), "capture"))
	fail(t, err)
	e, err := d.Run(vadd, []int{n}, nil, y.InOut(), x.In(), 4)
	fail(t, err)
	fail(t, d.SwapIn(t.Context(), out, "cuda:0"))
	times, err := e.Wait()
	fail(t, err)
	if took := times.End.Sub(times.Start); took < 0 || times.Start.IsZero() {
		t.Errorf("ran from %v to %v", times.Start, times.End)
	}
	v, err = y.Host()
	fail(t, err)
	for i := range v {
		if v[i] != float64(10*i) {
			t.Fatalf("element %d is %v", i, v[i])
		}
	}
	if err := d.Migrate(t.Context(), "opencl:0"); !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), "cuda") {
		t.Errorf("to another library: %v", err)
	}
	_, err = d.Run(vadd, []int{n}, nil, y.InOut(), x.In(), 1)
	fail(t, err)
	_, err = y.Host()
	fail(t, err)
}

// TestHangingDriver has a library never open its device: the program is told when the limit is over, and may try again.
func TestHangingDriver(t *testing.T) {
	cudaProgram(t)
	for _, c := range []struct{ limit, says string }{
		{"300ms", "device cuda:0: its library has not opened it within 300ms"},
		{"soon", "GORUN_DEVICE_OPEN=soon is no duration"},
	} {
		t.Setenv("FAKE_CUDA_HANGS", "1")
		t.Setenv("GORUN_DEVICE_OPEN", c.limit)
		if d, err := device.Open("cuda:0"); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
			if err == nil {
				fail(t, d.Close())
			}
		}
	}
	fail(t, os.Unsetenv("FAKE_CUDA_HANGS"))
	t.Setenv("GORUN_DEVICE_OPEN", "")
	opened(t, "cuda:0")
}

// TestCUDAErrors has what goes wrong reach the program with CUDA's names.
func TestCUDAErrors(t *testing.T) {
	libraries := cudaProgram(t)
	d := opened(t, "cuda:1")
	x, y := device.NewArray[uint32](16), device.NewArray[uint32](16)
	_, tooFew := d.Run(next, []int{16}, nil, y.Out(), x.In())
	_, local := d.Run(next, []int{16}, nil, y.Out(), x.In(), device.Local[int32](5))
	_, text := d.Run(device.NewKernel(device.CUDA("bad", "extern \"C\" __global__ void bad(int *a) {\n\ta[0] = nothing;\n}")), []int{1}, nil, x.InOut())
	_, full := d.Run(next, []int{16}, nil, device.NewArray[uint32](1<<27).Out(), x.In(), uint32(16))
	_, body := d.Run(device.NewKernel(device.OpenCL("next", "")), []int{16}, nil)
	_, none := device.Open("cuda:2")
	for _, c := range []struct {
		err   error
		class error
		says  string
	}{
		{tooFew, device.ErrArgument, "device cuda:1: kernel next: wrong argument: 2 arguments besides local memory, the kernel takes 3"},
		{local, device.ErrArgument, "2 arguments besides local memory, the kernel takes 3"},
		{text, nil, "kernel.cu(2): error: identifier \"nothing\" is undefined"},
		{full, device.ErrMemory, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"},
		{body, device.ErrNoBody, "device.CUDA"},
		{none, device.ErrNoDevice, "no device cuda:2: this machine has 2 of cuda"},
	} {
		if c.err == nil || c.class != nil && !errors.Is(c.err, c.class) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("error %v, want %q in it", c.err, c.says)
		}
	}
	e, err := d.Run(next, []int{16}, nil, y.Out(), x.In(), uint32(1<<20)) // it reads far beyond x
	fail(t, err)
	if _, err = e.Wait(); !errors.Is(err, device.ErrKernel) || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)") {
		t.Errorf("a kernel that reads where nothing is: %v", err)
	}
	// A driver that does not work hides no other devices, but is told of.
	broken := t.TempDir()
	gcc, err := exec.LookPath("gcc")
	fail(t, err)
	cudatest.Compile(t, gcc, filepath.Join(broken, "libcuda.so.1"), []byte("int cuInit(unsigned flags) { return 0; }"))
	list := command(t, append(os.Environ(), "LD_LIBRARY_PATH="+broken), "list")
	var words bytes.Buffer
	list.Stderr = &words
	if out, err := list.Output(); err == nil || !strings.Contains(words.String(), "install a driver for CUDA") {
		t.Errorf("list: %v, %s%s", err, out, words.String())
	}
	out, err := command(t, append(slices.Clone(os.Environ()), "LD_LIBRARY_PATH="+libraries), "smoke").Output()
	if err != nil || !strings.Contains(string(out), "kernels compute what they should") {
		t.Errorf("smoke: %v: %s", err, out)
	}
}

// TestCUDAJobs has users move what a job has on CUDA's devices: while it runs, and by a restart.
func TestCUDAJobs(t *testing.T) {
	j := newJobs(t)
	j.env = append(j.env, "GORUN_DEVICE=cuda:0", "LD_LIBRARY_PATH="+cudatest.Build(t), "OCL_ICD_VENDORS="+t.TempDir())
	program := []string{"./turns", "-steps", "400", "-pace", "5ms"}
	want, err := j.run(append([]string{"-np", "2", "./turns"}, "-steps", "400")...)
	if err != nil {
		t.Fatalf("%v: %s", err, want)
	}
	id, wait := j.start(program...)
	j.processes(id)
	for _, step := range []step{
		{[]string{"migrate", id, "-device", "0", "-to", "1"}, true, "2 device(s) moved"},
		{[]string{"migrate", id, "-device", "cuda:1", "-to", "opencl:0"}, false, "its kernels are for cuda; a restart from a portable image"},
		{[]string{"swap-out", id, "-device", "cuda:1"}, true, "2 device(s) swapped out"},
		{[]string{"checkpoint", "-timeout", "60s", id}, true, "schema.toml"},
		{[]string{"swap-in", id, "-device", "cuda:0"}, true, "2 device(s) swapped in"},
	} {
		step.do(j)
	}
	if out, err := wait(); err != nil || digestLine.FindString(out) != digestLine.FindString(want) {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
	restart := func(on string) (string, error) {
		return j.run("restart", "-ckpt-dir", j.dir+"/snapshots", "-device", on, id[:8])
	}
	for _, on := range []string{"cuda:0", "1"} {
		if out, err := restart(on); err != nil || digestLine.FindString(out) != digestLine.FindString(want) {
			t.Errorf("on %s: %v: %s, want %s", on, err, out, want)
		}
	}
	if out, err := restart("opencl:0"); err == nil || !strings.Contains(out, "its kernels are for cuda") {
		t.Errorf("on another library: %v: %s", err, out)
	}
}
