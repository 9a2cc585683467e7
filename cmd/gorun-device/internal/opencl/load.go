// Package opencl drives devices through the OpenCL libraries of this machine, without cgo.
//
// The libraries are loaded when Load is called. Either libOpenCL.so.1 is there, which knows the
// vendors' libraries, or they are loaded directly: their names are in the files *.icd of
// /etc/OpenCL/vendors (or of the folder in OCL_ICD_VENDORS), and that of NVIDIA is known. Containers often
// have the vendor's library only.
//
// A kernel that stores to a wrong address ends the process that has loaded the library, as does a
// library's own fault. So no rank loads one. Libraries take signals for themselves (PoCL: SIGUSR1).
//
// Names and numbers are those of the OpenCL 3.0 specification. No call that came after 1.2 is used.
package opencl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library is OpenCL as it was found.
type Library struct {
	platforms []platform
	// Missed says what could not be loaded although it is named in a file.
	Missed []error
}

// platform is one vendor's share.
type platform struct {
	id  uintptr
	api *table
}

// Options say what is loaded. The zero value loads what the system has.
type Options struct {
	Loader  string // path of libOpenCL; "" is libOpenCL.so.1, "none" goes to the vendors' libraries
	Vendors string // folder of files *.icd; "" is OCL_ICD_VENDORS or /etc/OpenCL/vendors
}

// ErrNone says that there is no OpenCL.
var ErrNone = errors.New("no OpenCL on this machine")

// Load loads OpenCL. The error says where it was looked for and what to install. Libraries stay loaded
// until the process ends, as they cannot be unloaded safely.
func Load(o Options) (*Library, error) {
	if o.Loader == "" {
		o.Loader = "libOpenCL.so.1"
	}
	if o.Loader != "none" {
		if handle, err := purego.Dlopen(o.Loader, purego.RTLD_NOW|purego.RTLD_LOCAL); err == nil {
			return fromLoader(handle)
		}
	}
	l := &Library{}
	for _, file := range vendors(o.Vendors) {
		if err := l.addVendor(file); err != nil {
			l.Missed = append(l.Missed, err)
		}
	}
	if len(l.platforms) == 0 {
		return nil, fmt.Errorf("%w: neither %s nor a vendor's library could be loaded; install ocl-icd-libopencl1 and a driver (pocl-opencl-icd is one for CPUs)%w",
			ErrNone, o.Loader, joined(l.Missed))
	}
	return l, nil
}

// joined puts errors behind a sentence.
func joined(errs []error) error {
	if len(errs) == 0 {
		return errors.New("")
	}
	return fmt.Errorf(": %w", errors.Join(errs...))
}

// fromLoader takes all functions of libOpenCL, which passes each call on to the vendor of its object.
func fromLoader(handle uintptr) (*Library, error) {
	api := &table{}
	for c, name := range names {
		if name == "" {
			continue
		}
		address, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("libOpenCL.so.1 is none: %w", err)
		}
		api[c] = address
	}
	get, err := purego.Dlsym(handle, "clGetPlatformIDs")
	if err != nil {
		return nil, fmt.Errorf("libOpenCL.so.1 is none: %w", err)
	}
	ids, err := platformIDs(get)
	if err != nil {
		return nil, err
	}
	l := &Library{}
	for _, id := range ids {
		l.platforms = append(l.platforms, platform{id, api})
	}
	return l, nil
}

// addVendor loads a vendor's library. All it exports is one function that finds another. The other
// functions are in the table that its objects point to.
func (l *Library) addVendor(file string) error {
	handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	find, err := purego.Dlsym(handle, "clGetExtensionFunctionAddress")
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	name := append([]byte("clIcdGetPlatformIDsKHR"), 0)
	get, _, _ := purego.SyscallN(find, uintptr(unsafe.Pointer(&name[0])))
	if get == 0 {
		return fmt.Errorf("%s: no clIcdGetPlatformIDsKHR: the library works without a loader only", file)
	}
	ids, err := platformIDs(get)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, id := range ids {
		l.platforms = append(l.platforms, platform{id, dispatch(id)})
	}
	return nil
}

// dispatch returns a copy of the table to which the first word of an object of C points.
func dispatch(object uintptr) *table {
	entry := *(**table)(cMemory(object))
	t := *entry
	for c, name := range names {
		if name == "" {
			t[c] = 0
		}
	}
	return &t
}

// cMemory makes a pointer of an address in memory of C, which the garbage collector does not know.
func cMemory(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// platformIDs calls clGetPlatformIDs, or its twin in a vendor's library.
func platformIDs(get uintptr) ([]uintptr, error) {
	n := new(uint32)
	r, _, _ := purego.SyscallN(get, 0, 0, uintptr(unsafe.Pointer(n)))
	if code := int32(r); code == -1001 || code == 0 && *n == 0 {
		return nil, nil
	} else if code != 0 {
		return nil, &Error{"clGetPlatformIDs", code}
	}
	ids := make([]uintptr, *n)
	r, _, _ = purego.SyscallN(get, uintptr(*n), uintptr(unsafe.Pointer(&ids[0])), 0)
	if r != 0 {
		return nil, &Error{"clGetPlatformIDs", int32(r)}
	}
	return ids, nil
}

// vendors returns the libraries that the files *.icd name, and NVIDIA's.
func vendors(dir string) []string {
	if dir == "" {
		dir = os.Getenv("OCL_ICD_VENDORS")
	}
	if dir == "" {
		dir = "/etc/OpenCL/vendors"
	}
	var libraries []string
	files, _ := filepath.Glob(filepath.Join(dir, "*.icd"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if name := strings.TrimSpace(string(text)); err == nil && name != "" {
			libraries = append(libraries, name)
		}
	}
	if strings.Contains(filepath.Base(dir), ".so") { // OCL_ICD_VENDORS may name a library
		libraries = append(libraries, dir)
	}
	for _, name := range libraries {
		if strings.Contains(name, "libnvidia-opencl") {
			return libraries
		}
	}
	return append(libraries, "libnvidia-opencl.so.1")
}
