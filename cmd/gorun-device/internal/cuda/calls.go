package cuda

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

// call is a function of the driver.
type call int

const (
	cuInit call = iota
	cuDriverGetVersion
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetAttribute
	cuDeviceTotalMem
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuCtxSetCurrent
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuMemAlloc
	cuMemFree
	cuMemHostRegister
	cuMemHostUnregister
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemsetD8Async
	cuModuleLoadDataEx
	cuModuleUnload
	cuModuleGetFunction
	cuFuncSetAttribute
	cuLaunchKernel
	cuEventCreate
	cuEventRecord
	cuEventSynchronize
	cuEventElapsedTime
	cuEventDestroy
	cuGetErrorName
	cuGetErrorString
)

// names are those of CUDA's header. symbol adds what the library adds.
var names = [...]string{
	"cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDeviceTotalMem",
	"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease", "cuCtxSetCurrent", "cuStreamCreate", "cuStreamDestroy", "cuStreamSynchronize",
	"cuMemAlloc", "cuMemFree", "cuMemHostRegister", "cuMemHostUnregister", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemsetD8Async",
	"cuModuleLoadDataEx", "cuModuleUnload", "cuModuleGetFunction", "cuFuncSetAttribute", "cuLaunchKernel",
	"cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime", "cuEventDestroy", "cuGetErrorName", "cuGetErrorString",
}

// second are the functions whose header means their second version.
var second = map[call]bool{
	cuDeviceTotalMem: true, cuDevicePrimaryCtxRelease: true, cuStreamDestroy: true, cuMemAlloc: true, cuMemFree: true, cuMemHostRegister: true,
	cuMemcpyHtoDAsync: true, cuMemcpyDtoHAsync: true, cuMemcpyDtoDAsync: true, cuEventDestroy: true,
}

func (c call) symbol() string {
	if second[c] {
		return names[c] + "_v2"
	}
	return names[c]
}

// table has the addresses of functions.
type table [len(names)]uintptr

// fill looks all functions up. A driver that lacks one is too old: the youngest is of CUDA 11.
func (t *table) fill(handle uintptr, path string) error {
	var missing []string
	for i := range t {
		var err error
		if t[i], err = purego.Dlsym(handle, call(i).symbol()); err != nil {
			missing = append(missing, call(i).symbol())
		}
	}
	if missing != nil {
		return fmt.Errorf("%s has no %s: install a driver for CUDA 11 or newer", path, strings.Join(missing, ", "))
	}
	return nil
}

// status makes a call.
//
//go:uintptrescapes
func (t *table) status(c call, args ...uintptr) error {
	r, _, _ := purego.SyscallN(t[c], args...)
	if int32(r) == 0 {
		return nil
	}
	return &Error{names[c], int32(r), t.text(cuGetErrorName, int32(r)), t.text(cuGetErrorString, int32(r))}
}

// create makes a call whose first argument, which the caller leaves out, is where the result goes.
//
//go:uintptrescapes
func (t *table) create(c call, args ...uintptr) (uintptr, error) {
	var pins runtime.Pinner
	defer pins.Unpin()
	result := new(uintptr)
	pins.Pin(result)
	err := t.status(c, append([]uintptr{uintptr(unsafe.Pointer(result))}, args...)...)
	return *result, err
}

// number is create where the result is an int of C.
//
//go:uintptrescapes
func (t *table) number(c call, args ...uintptr) (int, error) {
	r, err := t.create(c, args...) // what was not written is zero
	return int(*(*int32)(unsafe.Pointer(&r))), err
}

func (t *table) count() (int, error) { return t.number(cuDeviceGetCount) }

// text asks for the words about an error.
func (t *table) text(c call, code int32) string {
	var pins runtime.Pinner
	defer pins.Unpin()
	result := new(*byte)
	pins.Pin(result)
	if r, _, _ := purego.SyscallN(t[c], uintptr(code), uintptr(unsafe.Pointer(result))); int32(r) != 0 || *result == nil {
		return ""
	}
	return cString(*result)
}

// cString copies a string of C.
func cString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// Error is a call that failed, in CUDA's words.
type Error struct {
	Call string
	Code int32
	Name string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // "out of memory"
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s: error %d", e.Call, e.Code)
	}
	return fmt.Sprintf("%s: %s (%s)", e.Call, e.Name, e.Text)
}

const outOfMemory = 2

// Is makes a full device known as what it is.
func (e *Error) Is(target error) bool { return target == driver.ErrMemory && e.Code == outOfMemory }
