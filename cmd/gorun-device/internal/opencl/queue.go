package opencl

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

// queue is an open device.
type queue struct {
	device  *device
	api     *table
	context uintptr
	id      uintptr

	// What a call reads while it lasts. It lies here, not on a stack, so a launch allocates nothing.
	global, local [3]uintptr
	arg           uintptr
	event         uintptr
	zero          byte
}

func (q *queue) Alloc(size int64) (driver.Mem, error) {
	if size <= 0 || size > q.device.maxAlloc {
		return 0, fmt.Errorf("%s: a buffer of %d bytes, the largest has %d: %w", q.device.info.Name, size, q.device.maxAlloc, driver.ErrMemory)
	}
	const readWrite = 1
	m, err := q.api.create(createBuffer, q.context, readWrite, uintptr(size), 0)
	if err != nil {
		return 0, fmt.Errorf("%s: a buffer of %d bytes: %w", q.device.info.Name, size, err)
	}
	return driver.Mem(m), nil
}

func (q *queue) Free(m driver.Mem) error { return q.api.status(releaseMemObject, uintptr(m)) }

func (q *queue) Write(dst driver.Mem, offset int64, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return q.api.status(enqueueWriteBuffer, q.id, uintptr(dst), 0, uintptr(offset), uintptr(len(src)), uintptr(unsafe.Pointer(&src[0])), 0, 0, 0)
}

func (q *queue) Read(dst []byte, src driver.Mem, offset int64) error {
	if len(dst) == 0 {
		return nil
	}
	return q.api.status(enqueueReadBuffer, q.id, uintptr(src), 0, uintptr(offset), uintptr(len(dst)), uintptr(unsafe.Pointer(&dst[0])), 0, 0, 0)
}

func (q *queue) Copy(dst driver.Mem, dstOffset int64, src driver.Mem, srcOffset, size int64) error {
	if size == 0 {
		return nil
	}
	return q.api.status(enqueueCopyBuffer, q.id, uintptr(src), uintptr(dst), uintptr(srcOffset), uintptr(dstOffset), uintptr(size), 0, 0, 0)
}

func (q *queue) Fill(dst driver.Mem, offset, size int64) error {
	if size == 0 {
		return nil
	}
	return q.api.status(enqueueFillBuffer, q.id, uintptr(dst), uintptr(unsafe.Pointer(&q.zero)), 1, uintptr(offset), uintptr(size), 0, 0, 0)
}

func (q *queue) Launch(k driver.Kernel, global, local []int, args []driver.Arg, timed bool) (driver.Event, error) {
	kernel := k.(*kernel)
	if len(args) != len(kernel.params) {
		return nil, fmt.Errorf("kernel %s takes %d arguments, not %d", kernel.name, len(kernel.params), len(args))
	}
	for i, a := range args {
		if err := q.set(kernel, i, a); err != nil {
			return nil, fmt.Errorf("kernel %s, argument %d (%s): %w", kernel.name, i, kernel.params[i].Name, err)
		}
	}
	if err := q.sizes(kernel, global, local); err != nil {
		return nil, err
	}
	var event, groups uintptr
	if timed {
		event = uintptr(unsafe.Pointer(&q.event))
	}
	if local != nil {
		groups = uintptr(unsafe.Pointer(&q.local[0]))
	}
	err := q.api.status(enqueueNDRangeKernel, q.id, kernel.id, uintptr(len(global)), 0, uintptr(unsafe.Pointer(&q.global[0])), groups, 0, 0, event)
	if err != nil {
		return nil, fmt.Errorf("kernel %s, global %v, local %v: %w", kernel.name, global, local, err)
	}
	if !timed {
		return nil, nil
	}
	return &runEvent{api: q.api, id: q.event}, nil
}

// sizes checks the sizes of a launch and puts them where the call reads them.
func (q *queue) sizes(k *kernel, global, local []int) error {
	if len(global) < 1 || len(global) > 3 || local != nil && len(local) != len(global) {
		return fmt.Errorf("kernel %s: global %v and local %v must have the same 1 to 3 dimensions", k.name, global, local)
	}
	for i, n := range global {
		if n < 1 || local != nil && (local[i] < 1 || n%local[i] != 0) {
			return fmt.Errorf("kernel %s: each number of global %v must be positive and a multiple of local %v", k.name, global, local)
		}
		q.global[i] = uintptr(n)
		if local != nil {
			q.local[i] = uintptr(local[i])
		}
	}
	return nil
}

// set passes one argument. The library copies it.
func (q *queue) set(k *kernel, i int, a driver.Arg) error {
	if err := fits(k.params[i].Space, a); err != nil {
		return err
	}
	switch {
	case a.Mem != 0:
		q.arg = uintptr(a.Mem)
		return q.api.status(setKernelArg, k.id, uintptr(i), unsafe.Sizeof(q.arg), uintptr(unsafe.Pointer(&q.arg)))
	case a.Local > 0:
		return q.api.status(setKernelArg, k.id, uintptr(i), uintptr(a.Local), 0)
	}
	return q.api.status(setKernelArg, k.id, uintptr(i), uintptr(len(a.Value)), uintptr(unsafe.Pointer(&a.Value[0])))
}

// fits refuses a value for a buffer and the other way round. Some libraries take an 8-byte value for a
// buffer's handle, and die.
func fits(s driver.Space, a driver.Arg) error {
	var ok bool
	switch s {
	case driver.Global, driver.Constant:
		ok = a.Mem != 0
	case driver.Local:
		ok = a.Mem == 0 && a.Local > 0
	case driver.Private:
		ok = a.Mem == 0 && a.Local == 0 && len(a.Value) > 0
	default:
		ok = a.Mem != 0 || a.Local > 0 || len(a.Value) > 0
	}
	if ok {
		return nil
	}
	return fmt.Errorf("the parameter is %v, the argument is not", s)
}

func (q *queue) Flush() error  { return q.api.status(flush, q.id) }
func (q *queue) Finish() error { return q.api.status(finish, q.id) }

func (q *queue) Close() error {
	return errors.Join(q.Finish(), q.api.status(releaseCommandQueue, q.id), q.api.status(releaseContext, q.context))
}

// runEvent is a kernel under way.
type runEvent struct {
	api *table
	id  uintptr
	at  uint64 // what a call writes to
}

func (e *runEvent) Times() (begin, end time.Duration, err error) {
	const started, ended = 0x1282, 0x1283
	if begin, err = e.time(started); err == nil {
		end, err = e.time(ended)
	}
	return begin, end, err
}

func (e *runEvent) time(what uintptr) (time.Duration, error) {
	err := e.api.status(getEventProfilingInfo, e.id, what, unsafe.Sizeof(e.at), uintptr(unsafe.Pointer(&e.at)), 0)
	return time.Duration(e.at), err
}

func (e *runEvent) Close() error { return e.api.status(releaseEvent, e.id) }
