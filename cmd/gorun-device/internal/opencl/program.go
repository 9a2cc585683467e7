package opencl

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

const (
	programKernels = 0x1168
	buildLog       = 0x1183

	kernelParams = 0x1191

	paramSpace = 0x1196
	paramType  = 0x1198
	paramQuals = 0x1199
	paramName  = 0x119a
)

type program struct {
	q    *queue
	id   uintptr
	list string // names of its kernels, as the library tells them
}

// Build compiles a program, and has the compiler keep what it knows of the kernels' parameters.
func (q *queue) Build(source, options string) (driver.Program, error) {
	text, length := []byte(source), []uintptr{uintptr(len(source))}
	if len(text) == 0 {
		return nil, errors.New("the program is empty")
	}
	// C reads an address out of memory here. The text is memory of Go, which does not move.
	texts := []*byte{&text[0]}
	id, err := q.api.create(createProgramWithSource, q.context, 1, uintptr(unsafe.Pointer(&texts[0])), uintptr(unsafe.Pointer(&length[0])))
	if err != nil {
		return nil, err
	}
	p := &program{q: q, id: id}
	opts, ids := append([]byte("-cl-kernel-arg-info "+options), 0), []uintptr{q.device.id}
	if err := q.api.status(buildProgram, id, 1, uintptr(unsafe.Pointer(&ids[0])), uintptr(unsafe.Pointer(&opts[0])), 0, 0); err != nil {
		err = p.buildError(err)
		p.Close()
		return nil, err
	}
	list, err := q.api.info(getProgramInfo, id, programKernels)
	if err != nil {
		p.Close()
		return nil, err
	}
	p.list = strings.TrimRight(string(list), "\x00")
	return p, nil
}

// buildError makes an error of the compiler's words, where it has any.
func (p *program) buildError(err error) error {
	log, logErr := p.q.api.info(getProgramBuildInfo, p.id, p.q.device.id, buildLog)
	if logErr != nil || text(log) == "" {
		return err
	}
	return &driver.BuildError{Device: p.q.device.info.Name, Log: text(log)}
}

func (p *program) Close() error { return p.q.api.status(releaseProgram, p.id) }

type kernel struct {
	api    *table
	id     uintptr
	name   string
	params []driver.Param
}

func (p *program) Kernel(name string) (driver.Kernel, error) {
	cname := append([]byte(name), 0)
	id, err := p.q.api.create(createKernel, p.id, uintptr(unsafe.Pointer(&cname[0])))
	if err != nil {
		return nil, fmt.Errorf("kernel %s (the program has %s): %w", name, strings.ReplaceAll(p.list, ";", ", "), err)
	}
	k := &kernel{api: p.q.api, id: id, name: name}
	n, err := k.api.info(getKernelInfo, id, kernelParams)
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	for i := range uintptr(number(n)) {
		k.params = append(k.params, k.param(i))
	}
	return k, nil
}

// param asks about a parameter. A library that does not tell leaves zeros: Unknown.
func (k *kernel) param(i uintptr) driver.Param {
	get := func(what uintptr) []byte {
		value, _ := k.api.info(getKernelArgInfo, k.id, i, what)
		return value
	}
	const isConst = 1
	p := driver.Param{Name: text(get(paramName)), Type: text(get(paramType)), Const: number(get(paramQuals))&isConst != 0}
	switch number(get(paramSpace)) {
	case 0x119b:
		p.Space = driver.Global
	case 0x119c:
		p.Space = driver.Local
	case 0x119d:
		p.Space, p.Const = driver.Constant, true
	case 0x119e:
		p.Space, p.Bytes = driver.Private, sizeOf(p.Type)
	}
	return p
}

// sizes are those of OpenCL's numbers in bytes, by the names of their types.
var sizes = map[string]int{"char": 1, "uchar": 1, "short": 2, "ushort": 2, "half": 2, "int": 4, "uint": 4, "float": 4, "long": 8, "ulong": 8, "double": 8}

// sizeOf gives the size of a number by its type's name, 0 if that is none, such as the program's own.
func sizeOf(name string) int {
	if rest, ok := strings.CutPrefix(name, "unsigned "); ok {
		name = rest
	}
	return sizes[name]
}

func (k *kernel) Name() string           { return k.name }
func (k *kernel) Params() []driver.Param { return k.params }
func (k *kernel) Close() error           { return k.api.status(releaseKernel, k.id) }
