package cpu

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/gorun-mpi/gorun/device/provider"
)

// launch is one run of a kernel.
type launch struct {
	kernel *kernel
	args   []provider.Arg
	all    provider.Work
	dim    int // the dimension that is dealt out
	groups int // in that dimension
	failed atomic.Pointer[error]
}

// shape checks the sizes. Groups are dealt out along the last dimension that has more than one.
func (l *launch) shape(global, local []int) error {
	for i := range 3 {
		l.all.Global[i], l.all.Local[i] = 1, 1
		if i < len(global) {
			l.all.Global[i] = global[i]
		}
		if i < len(local) {
			l.all.Local[i] = local[i]
		}
		g, n := l.all.Global[i], l.all.Local[i]
		if n < 1 || g < 0 || g%n != 0 {
			return fmt.Errorf("kernel %s: %d items are no whole number of groups of %d", l.kernel.name, g, n)
		}
		if i == 0 || g/n > 1 {
			l.dim, l.groups = i, g/n
		}
	}
	l.all.To = l.all.Global
	return nil
}

// run calls the body on as many goroutines as processors. Each takes the next groups.
func (l *launch) run() error {
	if l.all.Global[0] == 0 || l.all.Global[1] == 0 || l.all.Global[2] == 0 {
		return nil
	}
	workers := min(runtime.GOMAXPROCS(0), l.groups)
	each := max(1, l.groups/(4*workers))
	var next atomic.Int64
	part := func() {
		args := l.values()
		for l.failed.Load() == nil {
			from := int(next.Add(1)-1) * each
			if from >= l.groups {
				return
			}
			l.call(args, from, min(from+each, l.groups))
		}
	}
	var wg sync.WaitGroup
	for range workers { // none on this goroutine, which a body may not end
		wg.Go(part)
	}
	wg.Wait()
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// call runs the body for some groups. What it panics with becomes the kernel's error.
func (l *launch) call(args []reflect.Value, from, to int) {
	returned := false
	defer func() {
		var err error
		if v := recover(); v != nil {
			err = fmt.Errorf("device cpu:0: kernel %s: %w: panic: %v\n%s", l.kernel.name, provider.ErrKernel, v, debug.Stack())
		} else if !returned {
			err = fmt.Errorf("device cpu:0: kernel %s: %w: it has called runtime.Goexit, as t.FailNow does", l.kernel.name, provider.ErrKernel)
		} else {
			return
		}
		l.failed.CompareAndSwap(nil, &err)
	}()
	w := l.all
	w.From[l.dim], w.To[l.dim] = from*w.Local[l.dim], to*w.Local[l.dim]
	args[0] = reflect.ValueOf(w)
	l.kernel.f.Call(args)
	returned = true
}

// values are the arguments as the body's types; local memory is the worker's own. The first is left for the Work.
func (l *launch) values() []reflect.Value {
	t := l.kernel.f.Type()
	vs := make([]reflect.Value, 1+len(l.args))
	for i, a := range l.args {
		vs[1+i] = value(t.In(1+i), a)
	}
	return vs
}

func value(t reflect.Type, a provider.Arg) reflect.Value {
	switch a.Kind {
	case provider.InMemory:
		m := a.Memory.(*memoryOf)
		return reflect.SliceAt(t.Elem(), unsafe.Pointer(unsafe.SliceData(m.words)), m.size/int(t.Elem().Size())).Convert(t)
	case provider.Local:
		n := a.Size / int(t.Elem().Size())
		return reflect.MakeSlice(t, n, n)
	}
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Float32:
		v.SetFloat(float64(math.Float32frombits(uint32(a.Value))))
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(a.Value))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(a.Value)
	default:
		v.SetInt(int64(a.Value))
	}
	return v
}
