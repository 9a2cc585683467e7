package opencl

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

// call is a function of OpenCL, by its place in the table of functions that each object of a vendor's
// library begins with (cl_khr_icd).
type call int

const (
	getPlatformInfo         call = 1
	getDeviceIDs            call = 2
	getDeviceInfo           call = 3
	createContext           call = 4
	releaseContext          call = 7
	createCommandQueue      call = 9
	releaseCommandQueue     call = 11
	createBuffer            call = 14
	releaseMemObject        call = 18
	createProgramWithSource call = 26
	releaseProgram          call = 29
	buildProgram            call = 30
	getProgramInfo          call = 32
	getProgramBuildInfo     call = 33
	createKernel            call = 34
	releaseKernel           call = 37
	setKernelArg            call = 38
	getKernelInfo           call = 39
	releaseEvent            call = 44
	getEventProfilingInfo   call = 45
	flush                   call = 46
	finish                  call = 47
	enqueueReadBuffer       call = 48
	enqueueWriteBuffer      call = 49
	enqueueCopyBuffer       call = 50
	enqueueNDRangeKernel    call = 59
	getKernelArgInfo        call = 101
	enqueueFillBuffer       call = 102
)

var names = [...]string{
	getPlatformInfo: "clGetPlatformInfo", getDeviceIDs: "clGetDeviceIDs", getDeviceInfo: "clGetDeviceInfo",
	createContext: "clCreateContext", releaseContext: "clReleaseContext",
	createCommandQueue: "clCreateCommandQueue", releaseCommandQueue: "clReleaseCommandQueue",
	createBuffer: "clCreateBuffer", releaseMemObject: "clReleaseMemObject",
	createProgramWithSource: "clCreateProgramWithSource", releaseProgram: "clReleaseProgram", buildProgram: "clBuildProgram",
	getProgramInfo: "clGetProgramInfo", getProgramBuildInfo: "clGetProgramBuildInfo",
	createKernel: "clCreateKernel", releaseKernel: "clReleaseKernel", setKernelArg: "clSetKernelArg",
	getKernelInfo: "clGetKernelInfo", getKernelArgInfo: "clGetKernelArgInfo",
	releaseEvent: "clReleaseEvent", getEventProfilingInfo: "clGetEventProfilingInfo",
	flush: "clFlush", finish: "clFinish",
	enqueueReadBuffer: "clEnqueueReadBuffer", enqueueWriteBuffer: "clEnqueueWriteBuffer", enqueueCopyBuffer: "clEnqueueCopyBuffer",
	enqueueNDRangeKernel: "clEnqueueNDRangeKernel", enqueueFillBuffer: "clEnqueueFillBuffer",
}

// table has the addresses of functions. A vendor may leave out some: zero.
type table [len(names)]uintptr

// status makes a call that returns its error.
//
//go:uintptrescapes
func (t *table) status(c call, args ...uintptr) error {
	if t[c] == 0 {
		return fmt.Errorf("this OpenCL library has no %s", names[c])
	}
	r, _, _ := purego.SyscallN(t[c], args...)
	return check(c, int32(r))
}

// create makes a call that returns an object. Its last argument, which the caller leaves out, is the
// address of the error.
//
//go:uintptrescapes
func (t *table) create(c call, args ...uintptr) (uintptr, error) {
	if t[c] == 0 {
		return 0, fmt.Errorf("this OpenCL library has no %s", names[c])
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	code := new(int32)
	pins.Pin(code)
	r, _, _ := purego.SyscallN(t[c], append(args, uintptr(unsafe.Pointer(code)))...)
	return r, check(c, *code)
}

// info makes one of the calls that tell something of an object. The arguments are those before the
// size. A nil answer is none: the error tells.
//
//go:uintptrescapes
func (t *table) info(c call, args ...uintptr) ([]byte, error) {
	var pins runtime.Pinner
	defer pins.Unpin()
	size := new(uintptr)
	pins.Pin(size)
	if err := t.status(c, append(args, 0, 0, uintptr(unsafe.Pointer(size)))...); err != nil || *size == 0 {
		return nil, err
	}
	value := make([]byte, *size)
	pins.Pin(&value[0])
	err := t.status(c, append(args, *size, uintptr(unsafe.Pointer(&value[0])), 0)...)
	return value, err
}

// Error is a call that failed.
type Error struct {
	Call string
	Code int32
}

func (e *Error) Error() string {
	if name, ok := codes[e.Code]; ok {
		return e.Call + ": " + name
	}
	return fmt.Sprintf("%s: error %d", e.Call, e.Code)
}

// Is makes a full device known as what it is. "Out of resources" is not always that: some libraries say it
// of a kernel with a wrong address.
func (e *Error) Is(target error) bool {
	return target == driver.ErrMemory && (e.Code == -4 || e.Code == -61)
}

func check(c call, code int32) error {
	if code == 0 {
		return nil
	}
	return &Error{names[c], code}
}

var codes = map[int32]string{
	-1: "device not found", -2: "device not available", -3: "compiler not available", -4: "no memory for the buffer",
	-5: "out of resources", -6: "out of host memory", -7: "no times available", -8: "copied parts overlap",
	-11: "build failed", -14: "work before it failed", -30: "invalid value", -33: "invalid device", -34: "invalid context",
	-36: "invalid queue", -38: "invalid buffer", -43: "invalid options of the compiler", -44: "invalid program",
	-45: "no program for this device", -46: "no kernel of this name", -47: "invalid definition of the kernel", -48: "invalid kernel",
	-49: "no argument of this number", -50: "invalid value of an argument", -51: "wrong size of an argument", -52: "an argument is missing",
	-53: "wrong number of dimensions", -54: "invalid local size", -55: "local size too large", -58: "invalid event", -59: "invalid operation",
	-61: "invalid size of a buffer", -63: "invalid global size", -1001: "no platform found",
}
