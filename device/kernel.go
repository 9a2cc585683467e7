package device

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/device/provider"
)

// Body is a kernel for one kind of device: OpenCL, CUDA or Go.
type Body struct{ b provider.Body }

// OpenCL is the body of a kernel in OpenCL C: the function of that name in the source. Options are those of the compiler.
// Parameters that are numbers need arguments of just their size, unless the kernel has a Go body as well.
func OpenCL(name, source string, options ...string) Body {
	return Body{provider.Body{Language: "opencl", Name: name, Source: source, Options: strings.Join(options, " ")}}
}

// CUDA is the body of a kernel in CUDA C, the function of that name in the source, which is declared extern "C" __global__. Options are those of
// NVRTC, which compiles it for the device. The source may be PTX, too, without options.
//
// There are as many threads as Run is given items, in blocks of local. Local memory is no parameter of the function: its extern __shared__ array has
// room for all of it, in the order of the arguments, each beginning at a multiple of 16 bytes.
func CUDA(name, source string, options ...string) Body {
	return Body{provider.Body{Language: "cuda", Name: name, Source: source, Options: strings.Join(options, " ")}}
}

// Go is the body of a kernel in Go: a function of a Work and the kernel's arguments. It computes the items of the Work; several goroutines call it
// at once, for parts of the items. An array or local memory is a slice, a number is a number:
//
//	device.Go("scale", func(w device.Work, y []float32, a float32) { ... })
//
// It panics if f is no such function. What f panics with becomes the error of its Event.
func Go(name string, f any) Body {
	t := reflect.TypeOf(f)
	if t == nil || t.Kind() != reflect.Func || t.NumOut() != 0 || t.IsVariadic() || t.NumIn() < 1 || t.In(0) != reflect.TypeFor[Work]() {
		panic(fmt.Sprintf("device.Go(%q): %T is not a func(device.Work, ...) without results", name, f))
	}
	for i := 1; i < t.NumIn(); i++ {
		p := t.In(i)
		if p.Kind() == reflect.Slice {
			p = p.Elem()
		}
		if sizes[p.Kind()] == 0 {
			panic(fmt.Sprintf("device.Go(%q): parameter %d is a %v; kernels take numbers whose size is the same everywhere, such as float32 and int64, and slices of them", name, i, t.In(i)))
		}
	}
	return Body{provider.Body{Language: "go", Name: name, Func: f}}
}

// sizes are those of the numbers that kernels take, in bytes.
var sizes = map[reflect.Kind]int{
	reflect.Int8: 1, reflect.Int16: 2, reflect.Int32: 4, reflect.Int64: 8,
	reflect.Uint8: 1, reflect.Uint16: 2, reflect.Uint32: 4, reflect.Uint64: 8,
	reflect.Float32: 4, reflect.Float64: 8,
}

// Kernel is a function that devices run for many items at once.
type Kernel struct {
	name   string
	bodies []provider.Body
	params []reflect.Type // of the Go body; nil: there is none
}

// NewKernel makes a kernel of its bodies, at most one for each kind of device. A device runs the one that it can, and Open, All and Virtual
// choose devices that can run the kernels made before. It panics
// without bodies, and if two are for one kind. If one is in Go its parameters are those of the kernel: arguments that are numbers are made the parameters' types.
func NewKernel(bodies ...Body) *Kernel {
	if len(bodies) == 0 {
		panic("device.NewKernel: no bodies")
	}
	k := &Kernel{name: bodies[0].b.Name}
	for i, b := range bodies {
		if slices.ContainsFunc(bodies[:i], func(o Body) bool { return o.b.Language == b.b.Language }) {
			panic(fmt.Sprintf("device.NewKernel: %s has two bodies for %s", k.name, b.b.Language))
		}
		k.bodies = append(k.bodies, b.b)
		if b.b.Language == "go" {
			t := reflect.TypeOf(b.b.Func)
			k.params = make([]reflect.Type, 0, t.NumIn())
			for i := 1; i < t.NumIn(); i++ {
				k.params = append(k.params, t.In(i))
			}
		}
	}
	made.add(k)
	return k
}

// Shared is memory that the items of a group have in common, as an argument of a kernel.
type Shared struct {
	elem reflect.Type
	n    int
}

// Local is an argument of a kernel: memory for n elements that the items of a group have in common. It is never transferred or
// saved. A Go body gets the memory of its goroutine, with whatever is in it.
func Local[T Number](n int) Shared { return Shared{reflect.TypeFor[T](), n} }

// arg makes an argument of what Run was given. The memory of an array is left to Run.
func (k *Kernel) arg(i int, v any) (provider.Arg, error) {
	var want reflect.Type
	if k.params != nil {
		want = k.params[i]
	}
	switch v := v.(type) {
	case Use:
		if v.s == nil {
			return provider.Arg{}, errors.New("it is no array: a Use is made by In, Out or InOut")
		}
		if want != nil && want != reflect.SliceOf(v.elem) {
			return provider.Arg{}, fmt.Errorf("it is an array of %v, the kernel takes a %v", v.elem, want)
		}
		return provider.Arg{Kind: provider.InMemory}, nil
	case Shared:
		if v.elem == nil || v.n < 1 {
			return provider.Arg{}, fmt.Errorf("it is local memory of %d elements: Local makes it, of one at least", v.n)
		}
		if want != nil && want != reflect.SliceOf(v.elem) {
			return provider.Arg{}, fmt.Errorf("it is local memory of %d %v, the kernel takes a %v", v.n, v.elem, want)
		}
		return provider.Arg{Kind: provider.Local, Size: v.n * int(v.elem.Size())}, nil
	}
	x := reflect.ValueOf(v)
	if v == nil || !x.CanInt() && !x.CanUint() && !x.CanFloat() {
		return provider.Arg{}, fmt.Errorf("it is a %T; pass a number, or an array by its In, Out or InOut", v)
	}
	if want == nil && sizes[x.Kind()] == 0 {
		return provider.Arg{}, fmt.Errorf("it is an %T, whose size kernels do not know: pass an int32 or int64", v)
	}
	if want != nil {
		var ok bool
		if x, ok = converted(x, want); !ok {
			return provider.Arg{}, fmt.Errorf("%v (%T) is no %v, which the kernel takes", v, v, want)
		}
	}
	return provider.Arg{Kind: provider.Scalar, Value: bits(x), Size: sizes[x.Kind()]}, nil
}

// converted is a number as another type, if that can hold it. Numbers with a fraction may be rounded.
func converted(x reflect.Value, want reflect.Type) (reflect.Value, bool) {
	if want.Kind() == reflect.Slice {
		return x, false
	}
	if x.Type() == want {
		return x, true
	}
	y := x.Convert(want)
	if y.CanFloat() {
		return y, !x.CanFloat() || !y.OverflowFloat(x.Float())
	}
	if x.CanFloat() {
		most := 0x1p63 // some processors make the largest integer of it, which is rounded to it again
		if y.CanUint() {
			most = 0x1p64
		}
		return y, x.Float() < most && y.Convert(x.Type()).Float() == x.Float()
	}
	negative := x.CanInt() && x.Int() < 0
	if negative != (y.CanInt() && y.Int() < 0) {
		return y, false
	}
	return y, y.Convert(x.Type()).Equal(x)
}

// bits are those of a number, integers with their sign extended.
func bits(x reflect.Value) uint64 {
	switch {
	case x.Kind() == reflect.Float32:
		return uint64(math.Float32bits(float32(x.Float())))
	case x.CanFloat():
		return math.Float64bits(x.Float())
	case x.CanUint():
		return x.Uint()
	}
	return uint64(x.Int())
}
