package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/cudatest"
	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

// fake is the made-up library, loaded.
type fake struct {
	*testing.T
	options Options
	*Library
	handle uintptr
}

func load(t *testing.T) *fake {
	runtime.LockOSThread() // a context belongs to a thread
	t.Cleanup(runtime.UnlockOSThread)
	dir := cudatest.Build(t)
	f := &fake{T: t, options: Options{Driver: filepath.Join(dir, "libcuda.so.1"), Compiler: filepath.Join(dir, "libnvrtc.so")}}
	var err error
	f.Library, err = Load(f.options)
	must(t, err)
	f.handle, err = purego.Dlopen(f.options.Driver, purego.RTLD_NOW)
	must(t, err)
	return f
}

// order has the nth next call of that name fail.
func (f *fake) order(call string, code, nth uintptr) {
	name := append([]byte(call), 0)
	at, err := purego.Dlsym(f.handle, "fake_fail")
	must(f.T, err)
	purego.SyscallN(at, uintptr(unsafe.Pointer(&name[0])), code, nth)
}

// calls returns what was called since the last time.
func (f *fake) calls() string {
	at, err := purego.Dlsym(f.handle, "fake_calls")
	must(f.T, err)
	p, _, _ := purego.SyscallN(at)
	text := cString(*(**byte)(unsafe.Pointer(&p)))
	at, err = purego.Dlsym(f.handle, "fake_forget")
	must(f.T, err)
	purego.SyscallN(at)
	return text
}

func (f *fake) open() driver.Queue {
	all, err := f.Devices()
	must(f.T, err)
	q, err := all[0].Open()
	must(f.T, err)
	return q
}

func TestDevices(t *testing.T) {
	all, err := load(t).Devices()
	must(t, err)
	if len(all) != 2 {
		t.Fatalf("%d devices", len(all))
	}
	i := all[1].Info()
	if i.Name != "Made Up 1" || i.Kind != "gpu" || i.Memory != 256<<20 || i.Units != 8 || i.Clock != 1500 || i.MaxGroup != 1024 || !i.Double || i.Version != "CUDA 12.4, compute capability 8.6" {
		t.Errorf("%+v", i)
	}
}

// TestWork goes through all that a queue can do, and compares the calls.
func TestWork(t *testing.T) {
	f := load(t)
	q := f.open()
	f.calls()
	const n = 1000
	y, err := q.Alloc(8 * n)
	must(t, err)
	x, err := q.Alloc(8 * n)
	must(t, err)
	must(t, errors.Join(q.Fill(y, 0, 8*n), q.Fill(x, 0, 8*n), q.Write(x, 8, floats(1, 2, 3))))
	p, err := q.Build(cudatest.Source, "")
	must(t, err)
	k, err := p.Kernel("vadd")
	must(t, err)
	e, err := q.Launch(k, []int{n}, nil, []driver.Arg{{Mem: y}, {Mem: x}, {Value: floats(2.5)}}, true)
	must(t, err)
	must(t, q.Copy(x, 0, y, 16, 16))
	got := make([]byte, 32)
	must(t, q.Read(got, x, 0))
	must(t, q.Finish())
	if want := floats(5, 7.5, 2, 3); !bytes.Equal(got, want) {
		t.Errorf("x begins with %v, want %v", got, want)
	}
	if begin, end, err := e.Times(); err != nil || end < begin || end == 0 {
		t.Errorf("ran from %v to %v, %v", begin, end, err)
	}
	must(t, errors.Join(e.Close(), k.Close(), p.Close(), q.Free(x), q.Free(y), q.Close()))
	want := `cuMemAlloc cuMemAlloc cuMemsetD8Async cuMemsetD8Async cuMemcpyHtoDAsync cuModuleLoadDataEx cuModuleGetFunction
		cuEventCreate cuEventCreate cuEventRecord cuLaunchKernel vadd grid 4 1 1 block 250 1 1 shared 0 cuEventRecord
		cuMemcpyDtoDAsync cuMemcpyDtoHAsync cuStreamSynchronize cuEventElapsedTime cuEventElapsedTime cuEventDestroy cuEventDestroy
		cuModuleUnload cuStreamSynchronize cuMemFree cuStreamSynchronize cuMemFree
		cuStreamSynchronize cuEventDestroy cuStreamDestroy cuDevicePrimaryCtxRelease`
	if got := strings.Fields(f.calls()); !slices.Equal(got, strings.Fields(want)) {
		t.Errorf("calls %v", got)
	}
}

// TestRefusals tries what must fail, each with a word about what it is.
func TestRefusals(t *testing.T) {
	f := load(t)
	q := f.open()
	defer q.Close()
	m, err := q.Alloc(64)
	must(t, err)
	p, err := q.Build(cudatest.PTX, "")
	must(t, err)
	k, err := p.Kernel("vadd")
	must(t, err)
	launch := func(global, local []int, args ...driver.Arg) error {
		_, err := q.Launch(k, global, local, args, false)
		return err
	}
	buffer, two := driver.Arg{Mem: m}, driver.Arg{Value: floats(2)}
	_, noKernel := p.Kernel("sub")
	_, noBuild := q.Build("extern \"C\" __global__ void bad(int *a) {\n\ta[0] = nothing;\n}", "")
	_, noJIT := q.Build(strings.Replace(cudatest.PTX, "ret", "bad_instruction", 1), "")
	_, noOptions := q.Build(cudatest.PTX, "-O3")
	_, noRoom := q.Alloc(1 << 40)
	for _, c := range []struct {
		err  error
		want string
	}{
		{launch([]int{8}, nil, buffer, buffer), "takes 3 arguments besides local memory, not 2"},
		{launch([]int{8}, nil, buffer, buffer, two, two), "takes 3 arguments besides local memory, not 4"},
		{launch([]int{8}, nil, buffer, buffer, buffer), "argument 2: the parameter is a number of 8 bytes, the argument an array"},
		{launch([]int{8}, nil, two, buffer, two), "argument 0: the parameter is a pointer"},
		{launch([]int{8}, nil, buffer, buffer, driver.Arg{Value: make([]byte, 4)}), "the parameter has 8 bytes, the argument 4"},
		{launch([]int{60}, []int{16}, buffer, buffer, two), "multiple of local"},
		{launch([]int{2048}, []int{2048}, buffer, buffer, two), "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (invalid argument)"},
		{launch([]int{8}, nil, buffer, buffer, two, driver.Arg{Local: 1 << 20}), "1048576 bytes of local memory: cuFuncSetAttribute"},
		{launch([]int{8}, nil, buffer, buffer, two, driver.Arg{Local: 1 << 32}), "4294967296 bytes of local memory: cuFuncSetAttribute"}, // an int of C
		{noKernel, `no kernel sub: the program has vadd; declare kernels extern "C"`},
		{noBuild, `kernel.cu(2): error: identifier "nothing" is undefined`},
		{noJIT, "CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed)\nptxas application ptx input, line 9"},
		{noOptions, "PTX"},
		{noRoom, "1099511627776 bytes: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error %v, want %q in it", c.err, c.want)
		}
	}
	if b := new(driver.BuildError); !errors.As(noBuild, &b) || !errors.As(noJIT, &b) {
		t.Errorf("programs with errors: %T, %T", noBuild, noJIT)
	}
	if !errors.Is(noRoom, driver.ErrMemory) {
		t.Error(noRoom)
	}
}

// TestLog has the driver refuse PTX from stacks of all depths, some of which are moved between the call's being made and the driver's answer.
func TestLog(t *testing.T) {
	f := load(t)
	q := f.open()
	defer q.Close()
	bad := strings.Replace(cudatest.PTX, "ret", "bad_instruction", 1)
	for depth := range 200 {
		err := onStack(func() error { return deep(depth, func() error { _, err := q.(*queue).load(bad); return err }) })
		if err == nil || !strings.Contains(err.Error(), "ptxas application ptx input, line 9") {
			t.Fatalf("depth %d: %v", depth, err)
		}
	}
}

// onStack runs something on a new stack, with the context of CUDA that this thread has.
func onStack(f func() error) error {
	next, stop := iter.Pull(func(yield func(error) bool) { yield(f()) })
	defer stop()
	err, _ := next()
	return err
}

//go:noinline
func deep(n int, f func() error) error {
	var room [128]byte
	if n == 0 {
		return f()
	}
	room[n%len(room)] = byte(n)
	err := deep(n-1, f)
	runtime.KeepAlive(&room)
	return err
}

// TestOrdered has every call of a session fail once: the error names it, and nothing else goes wrong.
func TestOrdered(t *testing.T) {
	f := load(t)
	session := func() error {
		all, err := f.Devices()
		if err != nil {
			return err
		}
		q, err := all[0].Open()
		if err != nil {
			return err
		}
		run := func() error {
			m, err := q.Alloc(64)
			if err != nil {
				return err
			}
			p, err := q.Build(cudatest.Source, "")
			if err != nil {
				return errors.Join(err, q.Free(m))
			}
			k, err := p.Kernel("scale")
			if err == nil {
				var e driver.Event
				if e, err = q.Launch(k, []int{16}, nil, []driver.Arg{{Mem: m}}, true); err == nil {
					err = q.Finish()
					_, _, timesErr := e.Times()
					err = errors.Join(err, timesErr, e.Close())
				}
			}
			return errors.Join(err, p.Close(), q.Free(m))
		}
		return errors.Join(run(), q.Close())
	}
	must(t, session())
	f.calls()
	must(t, session())
	seen := map[string]bool{}
	for _, call := range strings.Fields(f.calls()) {
		if !strings.HasPrefix(call, "cu") || seen[call] || call == "cuDeviceGetAttribute" {
			continue
		}
		seen[call] = true
		f.order(call, 999, 1)
		if err := session(); err == nil || !strings.Contains(err.Error(), call+": CUDA_ERROR_UNKNOWN (unknown error)") {
			t.Errorf("%s fails: %v", call, err)
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d calls: %v", len(seen), seen)
	}
	must(t, session())
}

// TestLate has a kernel fail that was accepted: the next Finish says so, also if a Free has met it first.
func TestLate(t *testing.T) {
	f := load(t)
	for _, free := range []bool{false, true} {
		q := f.open()
		m, err := q.Alloc(64)
		must(t, err)
		p, err := q.Build(cudatest.Source, "")
		must(t, err)
		k, err := p.Kernel("scale")
		must(t, err)
		_, err = q.Launch(k, []int{1024}, nil, []driver.Arg{{Mem: m}}, false) // the buffer has room for 16
		must(t, err)
		if free {
			q.Free(m)
		}
		if err := q.Finish(); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS") {
			t.Errorf("freed %v: %v", free, err)
		}
		q.Close()
	}
}

func TestNothingThere(t *testing.T) {
	_, err := Load(Options{Driver: filepath.Join(t.TempDir(), "libcuda.so.1")})
	if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "install NVIDIA's driver") {
		t.Error(err)
	}
	f := load(t)
	if f.Library, err = Load(Options{Driver: f.options.Driver, Compiler: filepath.Join(t.TempDir(), "libnvrtc.so")}); err != nil {
		t.Fatal(err)
	}
	q := f.open()
	defer q.Close()
	if _, err := q.Build(cudatest.Source, ""); err == nil || !strings.Contains(err.Error(), "install NVIDIA's libnvrtc, or give device.CUDA the kernel as PTX") {
		t.Error(err)
	}
	_, err = q.Build(cudatest.PTX, "")
	must(t, err)
}

// TestOld has a library that lacks functions.
func TestOld(t *testing.T) {
	f := load(t)
	gcc, err := exec.LookPath("gcc")
	must(t, err)
	old := filepath.Join(filepath.Dir(f.options.Driver), "old.so")
	cudatest.Compile(t, gcc, old, []byte("int cuInit(unsigned flags) { return 0; }"))
	if _, err := Load(Options{Driver: old}); err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "cuLaunchKernel") || !strings.Contains(err.Error(), "install a driver") {
		t.Error(err)
	}
	f.order("cuInit", 100, 1)
	if l, err := Load(f.options); err != nil || l.devices != 0 {
		t.Errorf("a machine without a device: %v, %v", l, err)
	}
	f.order("cuInit", 999, 1)
	if _, err := Load(f.options); err == nil || !strings.Contains(err.Error(), "NVIDIA's driver does not work: cuInit: CUDA_ERROR_UNKNOWN") {
		t.Error(err)
	}
}

func TestShape(t *testing.T) {
	for _, c := range []struct {
		global, local []int
		want          [6]uintptr
	}{
		{[]int{1024}, nil, [6]uintptr{4, 1, 1, 256, 1, 1}},
		{[]int{1009}, nil, [6]uintptr{1009, 1, 1, 1, 1, 1}}, // a prime
		{[]int{100, 6}, nil, [6]uintptr{1, 3, 1, 100, 2, 1}},
		{[]int{1, 1, 96}, nil, [6]uintptr{1, 1, 2, 1, 1, 48}},
		{[]int{64, 4}, []int{16, 2}, [6]uintptr{4, 2, 1, 16, 2, 1}},
		{[]int{256, 100_000}, nil, [6]uintptr{2, 50_000, 1, 128, 2, 1}}, // CUDA has 65535 blocks in the second dimension
		{[]int{8, 100_000, 200_000}, nil, [6]uintptr{1, 12_500, 50_000, 8, 8, 4}},
	} {
		grid, block, err := shape(c.global, c.local, 1024)
		if got := [6]uintptr{grid[0], grid[1], grid[2], block[0], block[1], block[2]}; err != nil || got != c.want {
			t.Errorf("%v, %v: %v, %v; want %v", c.global, c.local, got, err, c.want)
		}
	}
	for _, c := range [][2][]int{
		{{1<<32 + 1}, {1}}, // the driver would take its lower half
		{{1<<32 + 15}, nil},
		{{1, 100_003}, nil},
		{{16, 100_000}, {16, 1}},
	} {
		if grid, block, err := shape(c[0], c[1], 1024); err == nil || !strings.Contains(err.Error(), "than CUDA has in one launch") && !strings.Contains(err.Error(), "as CUDA has in one launch") {
			t.Errorf("%v, %v: %v, %v, %v", c[0], c[1], grid, block, err)
		}
	}
}

func TestPTX(t *testing.T) {
	const text = `/* made */ .version 8.0
.visible .entry one(.param .u64 one_param_0, .param .align 8 .b8 one_param_1[24])
{ // .entry commented(.param .u8 x)
}
.entry none()
{}
.weak .entry _Z5otherPf(
	.param .u64 .ptr .align 4 _Z5otherPf_param_0
) .maxntid 128, 1, 1
{}
.func (.param .b32 r) helper(.param .b32 p) {}`
	if !isPTX(text) || isPTX("extern \"C\" __global__ void f() {} // .version") {
		t.Error("what is PTX?")
	}
	got, err := entries(text)
	must(t, err)
	if len(got) != 3 || len(got["none"]) != 0 || !slices.Equal(got["one"], []param{{size: 8}, {size: 24, array: true}}) || !slices.Equal(got["_Z5otherPf"], []param{{size: 8, pointer: true}}) {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{".entry f(.param .v9)", ".entry f(.param .u64 a[99999999999999999999])", ".entry f(.param .b128 a)"} {
		if _, err := entries(bad); err == nil || !strings.Contains(err.Error(), "kernel f") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestGPU works on a real device. Without one it says what is missing.
func TestGPU(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l, err := Load(Options{})
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	must(t, err)
	all, err := l.Devices()
	must(t, err)
	if len(all) == 0 {
		t.Skip("NVIDIA's driver is here, but no device")
	}
	source := cudatest.Source
	if _, err := l.compiler(); err != nil {
		t.Log(err)
		source = realPTX
	}
	q, err := all[0].Open()
	must(t, err)
	defer func() { must(t, q.Close()) }()
	t.Logf("%+v", all[0].Info())
	m, err := q.Alloc(4 * 64)
	must(t, err)
	p, err := q.Build(source, "")
	must(t, err)
	k, err := p.Kernel("scale")
	must(t, err)
	must(t, q.Fill(m, 0, 4*64))
	must(t, q.Write(m, 4, []byte{7, 0, 0, 0}))
	e, err := q.Launch(k, []int{64}, nil, []driver.Arg{{Mem: m}}, true)
	must(t, err)
	got := make([]byte, 16)
	must(t, q.Read(got, m, 0))
	must(t, q.Finish())
	if want := []byte{0, 0, 0, 0, 22, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}; !bytes.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	begin, end, err := e.Times()
	if err != nil || end <= begin {
		t.Errorf("ran from %v to %v, %v", begin, end, err)
	}
	must(t, e.Close())
	if os.Getenv("GORUN_GPU_WILD") != "" { // it leaves the device's context broken
		_, err = q.Launch(k, []int{1 << 30}, nil, []driver.Arg{{Mem: m}}, false)
		must(t, err)
		t.Log(q.Finish())
	}
}

// realPTX is scale for any device.
const realPTX = `.version 6.0
.target sm_50
.address_size 64
.visible .entry scale(.param .u64 scale_param_0)
{
	.reg .b32 %r<7>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [scale_param_0];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r1, %r2, %r3;
	mul.wide.u32 %rd3, %r4, 4;
	add.s64 %rd4, %rd2, %rd3;
	ld.global.u32 %r5, [%rd4];
	mad.lo.s32 %r6, %r5, 3, %r4;
	st.global.u32 [%rd4], %r6;
	ret;
}
`

func floats(v ...float64) []byte {
	var b []byte
	for _, x := range v {
		b = binary.NativeEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
