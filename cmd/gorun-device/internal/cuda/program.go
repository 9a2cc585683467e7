package cuda

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

// program is a module of the driver.
type program struct {
	api     *table
	id      uintptr
	entries map[string][]param
}

// Build compiles CUDA C by NVRTC for this device, and has the driver take the PTX. A source that is PTX has no need of NVRTC, and
// no options.
func (q *queue) Build(source, options string) (driver.Program, error) {
	name := q.device.info.Name
	ptx := source
	if !isPTX(source) {
		c, err := q.device.lib.compiler()
		if err != nil {
			return nil, err
		}
		if ptx, err = c.compile(source, append([]string{"--gpu-architecture=compute_" + q.device.arch}, strings.Fields(options)...), name); err != nil {
			return nil, err
		}
	} else if strings.TrimSpace(options) != "" {
		return nil, fmt.Errorf("options %q: the source is PTX, which is compiled without options", options)
	}
	p := &program{api: q.api}
	var err error
	if p.entries, err = entries(ptx); err != nil {
		return nil, &driver.BuildError{Device: name, Log: err.Error()}
	}
	p.id, err = q.load(ptx)
	return p, err
}

// load has the driver take PTX. What it says is in the error.
func (q *queue) load(ptx string) (uintptr, error) {
	const errorLog, errorLogBytes = 5, 6
	text := append([]byte(ptx), 0)
	log := make([]byte, 16<<10)
	keys := []uint32{errorLog, errorLogBytes}
	var pins runtime.Pinner // else log is on the stack, which moves
	defer pins.Unpin()
	pins.Pin(&log[0])
	values := []uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log))}
	id, err := q.api.create(cuModuleLoadDataEx, uintptr(unsafe.Pointer(&text[0])), uintptr(len(keys)), uintptr(unsafe.Pointer(&keys[0])), uintptr(unsafe.Pointer(&values[0])))
	if err == nil {
		return id, nil
	}
	if words := cString(&log[0]); words != "" {
		return 0, &driver.BuildError{Device: q.device.info.Name, Log: err.Error() + "\n" + strings.TrimSpace(words)}
	}
	const newerPTX = 222
	var e *Error
	if errors.As(err, &e) && e.Code == newerPTX {
		return 0, fmt.Errorf("%w: the compiler is newer than NVIDIA's driver: install a newer driver or an older libnvrtc", err)
	}
	return 0, err
}

func (p *program) Close() error { return p.api.status(cuModuleUnload, p.id) }

type kernel struct {
	id     uintptr
	name   string
	params []param
}

func (p *program) Kernel(name string) (driver.Kernel, error) {
	params, ok := p.entries[name]
	if !ok {
		return nil, fmt.Errorf("no kernel %s: the program has %s; declare kernels extern \"C\" __global__, else C++ gives them other names", name,
			strings.Join(slices.Sorted(maps.Keys(p.entries)), ", "))
	}
	cname := append([]byte(name), 0)
	id, err := p.api.create(cuModuleGetFunction, p.id, uintptr(unsafe.Pointer(&cname[0])))
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	return &kernel{id, name, params}, nil
}

func (k *kernel) Name() string { return k.name }

// Params tells sizes in bytes for types; PTX has no others.
func (k *kernel) Params() []driver.Param {
	var list []driver.Param
	for _, p := range k.params {
		list = append(list, p.describe())
	}
	return list
}

// Close does nothing: a kernel goes with its program.
func (k *kernel) Close() error { return nil }
