package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

// compiler is NVRTC.
type compiler struct {
	create, destroy, compileProgram, logSize, log, ptxSize, ptx, errorString uintptr
}

// libraries are NVRTC's names, newest first: where the system looks, and where CUDA's toolkit is.
func libraries() (paths []string) {
	names := []string{"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}
	for _, folder := range []string{"", os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda"} {
		for _, name := range names {
			if folder != "" {
				name = filepath.Join(folder, "lib64", name)
			}
			if !slices.Contains(paths, name) {
				paths = append(paths, name)
			}
		}
	}
	return paths
}

// loadOnce returns what loads NVRTC when it is first called. Its error says what to do without it.
func loadOnce(path string) func() (*compiler, error) {
	names := libraries()
	if path != "" {
		names = []string{path}
	}
	return sync.OnceValues(func() (*compiler, error) {
		var errs []error
		for _, name := range names {
			handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
			if err == nil {
				return newCompiler(handle, name)
			}
			errs = append(errs, err)
		}
		return nil, fmt.Errorf("CUDA C cannot be compiled: no %s (%w); install NVIDIA's libnvrtc, or give device.CUDA the kernel as PTX", strings.Join(names, ", "), errs[0])
	})
}

func newCompiler(handle uintptr, path string) (*compiler, error) {
	c := &compiler{}
	var errs []error
	for name, at := range map[string]*uintptr{
		"nvrtcCreateProgram": &c.create, "nvrtcDestroyProgram": &c.destroy, "nvrtcCompileProgram": &c.compileProgram,
		"nvrtcGetProgramLogSize": &c.logSize, "nvrtcGetProgramLog": &c.log, "nvrtcGetPTXSize": &c.ptxSize, "nvrtcGetPTX": &c.ptx,
		"nvrtcGetErrorString": &c.errorString,
	} {
		var err error
		if *at, err = purego.Dlsym(handle, name); err != nil {
			errs = append(errs, fmt.Errorf("%s has no %s", path, name))
		}
	}
	return c, errors.Join(errs...)
}

// call makes a call that returns NVRTC's code.
//
//go:uintptrescapes
func (c *compiler) call(name string, f uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(f, args...)
	if int32(r) == 0 {
		return nil
	}
	text := "unknown"
	if p, _, _ := purego.SyscallN(c.errorString, uintptr(int32(r))); p != 0 {
		text = cString(*(**byte)(unsafe.Pointer(&p)))
	}
	return fmt.Errorf("%s: %s", name, text)
}

// compile makes PTX of CUDA C. An error of the compiler has its log.
func (c *compiler) compile(source string, options []string, device string) (string, error) {
	text, name := append([]byte(source), 0), append([]byte("kernel.cu"), 0)
	program := new(uintptr)
	if err := c.call("nvrtcCreateProgram", c.create, uintptr(unsafe.Pointer(program)), uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&name[0])), 0, 0, 0); err != nil {
		return "", err
	}
	defer c.call("nvrtcDestroyProgram", c.destroy, uintptr(unsafe.Pointer(program)))
	list := make([]*byte, len(options))
	for i, o := range options {
		list[i] = unsafe.SliceData(append([]byte(o), 0))
	}
	if err := c.call("nvrtcCompileProgram", c.compileProgram, *program, uintptr(len(list)), uintptr(unsafe.Pointer(&list[0]))); err != nil {
		log, logErr := c.text("nvrtcGetProgramLog", c.logSize, c.log, *program)
		if logErr != nil || log == "" {
			return "", errors.Join(err, logErr)
		}
		return "", &driver.BuildError{Device: device, Log: err.Error() + "\n" + log}
	}
	return c.text("nvrtcGetPTX", c.ptxSize, c.ptx, *program)
}

// text asks for a text whose length another call tells.
func (c *compiler) text(name string, length, get, program uintptr) (string, error) {
	n := new(uintptr)
	if err := c.call(name+"Size", length, program, uintptr(unsafe.Pointer(n))); err != nil || *n == 0 {
		return "", err
	}
	p := make([]byte, *n)
	err := c.call(name, get, program, uintptr(unsafe.Pointer(&p[0])))
	return strings.TrimRight(string(p), "\x00\n"), err
}
