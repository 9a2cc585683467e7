package cuda

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// queue is an open device: a stream.
type queue struct {
	device *device
	api    *table
	stream uintptr
	failed error // for the next Finish
	pinned []uintptr

	opened time.Time
	clock  *clock

	// What a launch reads while it lasts. It lies here, not on a stack, so a launch allocates nothing.
	values   [offload.MaxArgs]uint64
	pointers [offload.MaxArgs]unsafe.Pointer
}

func (q *queue) Alloc(size int64) (driver.Mem, error) {
	if size <= 0 {
		return 0, fmt.Errorf("%s: a buffer of %d bytes: %w", q.device.info.Name, size, driver.ErrMemory)
	}
	m, err := q.api.create(cuMemAlloc, uintptr(size))
	if err != nil {
		return 0, fmt.Errorf("%s: a buffer of %d bytes: %w", q.device.info.Name, size, err)
	}
	return driver.Mem(m), nil
}

// Free waits for what is in the stream: CUDA does not promise to.
func (q *queue) Free(m driver.Mem) error {
	if err := q.wait(); err != nil && q.failed == nil {
		q.failed = err
	}
	return q.api.status(cuMemFree, uintptr(m))
}

func (q *queue) Write(dst driver.Mem, offset int64, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return q.api.status(cuMemcpyHtoDAsync, uintptr(dst)+uintptr(offset), uintptr(unsafe.Pointer(&src[0])), uintptr(len(src)), q.stream)
}

func (q *queue) Read(dst []byte, src driver.Mem, offset int64) error {
	if len(dst) == 0 {
		return nil
	}
	return q.api.status(cuMemcpyDtoHAsync, uintptr(unsafe.Pointer(&dst[0])), uintptr(src)+uintptr(offset), uintptr(len(dst)), q.stream)
}

// Pin makes copies of this memory those of the device, where the driver would first copy to memory of its own.
func (q *queue) Pin(memory []byte) error {
	at := uintptr(unsafe.Pointer(&memory[0]))
	err := q.api.status(cuMemHostRegister, at, uintptr(len(memory)), 0)
	if err == nil {
		q.pinned = append(q.pinned, at)
	}
	return err
}

func (q *queue) Copy(dst driver.Mem, dstOffset int64, src driver.Mem, srcOffset, size int64) error {
	if size == 0 {
		return nil
	}
	return q.api.status(cuMemcpyDtoDAsync, uintptr(dst)+uintptr(dstOffset), uintptr(src)+uintptr(srcOffset), uintptr(size), q.stream)
}

func (q *queue) Fill(dst driver.Mem, offset, size int64) error {
	if size == 0 {
		return nil
	}
	return q.api.status(cuMemsetD8Async, uintptr(dst)+uintptr(offset), 0, uintptr(size), q.stream)
}

func (q *queue) Launch(k driver.Kernel, global, local []int, args []driver.Arg, timed bool) (driver.Event, error) {
	kernel := k.(*kernel)
	shared, err := q.arguments(kernel, args)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", kernel.name, err)
	}
	grid, block, err := shape(global, local, q.device.info.MaxGroup)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", kernel.name, err)
	}
	const dynamicShared, usual = 8, 48 << 10
	if shared > usual {
		if err := q.api.status(cuFuncSetAttribute, kernel.id, dynamicShared, uintptr(min(shared, math.MaxInt32))); err != nil {
			return nil, fmt.Errorf("kernel %s: %d bytes of local memory: %w", kernel.name, shared, err)
		}
	}
	launch := func() error {
		err := q.api.status(cuLaunchKernel, kernel.id, grid[0], grid[1], grid[2], block[0], block[1], block[2], uintptr(shared), q.stream,
			uintptr(unsafe.Pointer(&q.pointers[0])), 0)
		if err != nil {
			err = fmt.Errorf("kernel %s, global %v, local %v: %w", kernel.name, global, local, err)
		}
		return err
	}
	if timed {
		return q.timed(launch)
	}
	return nil, launch()
}

// arguments puts the arguments where the call reads them, and returns the bytes of local memory.
func (q *queue) arguments(k *kernel, args []driver.Arg) (shared int64, err error) {
	n := 0
	for i, a := range args {
		if a.Local > 0 {
			shared = (shared+15)&^15 + a.Local
			continue
		}
		if n < len(k.params) {
			if err := k.params[n].fits(a); err != nil {
				return 0, fmt.Errorf("argument %d: %w", i, err)
			}
			q.values[n], q.pointers[n] = uint64(a.Mem), unsafe.Pointer(&q.values[n])
			if a.Mem == 0 {
				copy(unsafe.Slice((*byte)(q.pointers[n]), 8), a.Value)
			}
		}
		n++
	}
	if n != len(k.params) {
		return 0, fmt.Errorf("it takes %d arguments besides local memory, not %d", len(k.params), n)
	}
	return shared, nil
}

// usualBlock is how many threads a block has at most that nobody has asked for.
const usualBlock = 256

// mostBlocks is how many blocks a grid has at most in each dimension.
var mostBlocks = [3]int{math.MaxInt32, 65535, 65535}

// shape makes blocks, and a grid of them, of items and groups.
func shape(global, local []int, most int) (grid, block [3]uintptr, err error) {
	if len(global) < 1 || len(global) > 3 || local != nil && len(local) != len(global) {
		return grid, block, fmt.Errorf("global %v and local %v must have the same 1 to 3 dimensions", global, local)
	}
	for i, n := range global {
		if n < 1 || local != nil && (local[i] < 1 || n%local[i] != 0) {
			return grid, block, fmt.Errorf("each number of global %v must be positive and a multiple of local %v", global, local)
		}
	}
	if local == nil {
		if local, err = blockFor(global, min(usualBlock, most)); err != nil {
			return grid, block, err
		}
	}
	grid, block = [3]uintptr{1, 1, 1}, [3]uintptr{1, 1, 1}
	for i, n := range global {
		if n/local[i] > mostBlocks[i] {
			return grid, block, fmt.Errorf("global %v and local %v make more blocks than CUDA has in one launch, %v", global, local, mostBlocks)
		}
		grid[i], block[i] = uintptr(n/local[i]), uintptr(local[i])
	}
	return grid, block, nil
}

// blockFor chooses a block, as large as there is room for, its first dimension before the others. Each has to be as large as leaves no more blocks than a
// grid may have.
func blockFor(global []int, room int) (block []int, err error) {
	limits := [3]int{room, room, min(room, 64)}
	for i, n := range global {
		b := 1
		for n%b != 0 || n/b > mostBlocks[i] {
			if b++; b > min(room, limits[i]) {
				return nil, fmt.Errorf("global %v: no block of at most %d threads divides that into as few blocks as CUDA has in one launch, %v", global, usualBlock, mostBlocks)
			}
		}
		block = append(block, b)
		room /= b
	}
	for i, n := range global {
		least := block[i]
		for block[i] = min(least*room, limits[i], n); n%block[i] != 0; block[i]-- {
		}
		room = room * least / block[i]
	}
	return block, nil
}

// Flush does nothing: a device begins by itself.
func (q *queue) Flush() error { return nil }

func (q *queue) wait() error { return q.api.status(cuStreamSynchronize, q.stream) }

func (q *queue) Finish() error {
	err := q.wait()
	if q.failed != nil {
		err, q.failed = q.failed, nil
	}
	if err == nil && time.Since(q.clock.set) > clockLife {
		err = q.setClock()
	}
	return err
}

func (q *queue) Close() error {
	var errs []error
	if q.stream != 0 {
		errs = append(errs, q.wait(), q.failed)
	}
	for _, at := range q.pinned {
		errs = append(errs, q.api.status(cuMemHostUnregister, at))
	}
	if q.clock != nil {
		errs = append(errs, q.clock.drop())
	}
	if q.stream != 0 {
		errs = append(errs, q.api.status(cuStreamDestroy, q.stream))
	}
	return errors.Join(append(errs, q.api.status(cuDevicePrimaryCtxRelease, q.device.id))...)
}
