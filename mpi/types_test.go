package mpi

import (
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"pgregory.net/rapid"
)

func describeOf[T any](t *testing.T) uint32 {
	t.Helper()
	d, err := elem[T]()
	if err != nil {
		t.Fatal(err)
	}
	var z T
	if d.Size != int(unsafe.Sizeof(z)) {
		t.Errorf("%s: size %d", d.Name, d.Size)
	}
	return d.ID
}

func TestTypeIDs(t *testing.T) {
	type named int32
	for _, x := range []struct {
		got  uint32
		kind reflect.Kind
	}{
		{describeOf[bool](t), reflect.Bool}, {describeOf[int](t), reflect.Int}, {describeOf[int8](t), reflect.Int8},
		{describeOf[uint16](t), reflect.Uint16}, {describeOf[named](t), reflect.Int32}, {describeOf[uintptr](t), reflect.Uintptr},
		{describeOf[float32](t), reflect.Float32}, {describeOf[complex128](t), reflect.Complex128},
	} {
		if x.got != uint32(x.kind) {
			t.Errorf("%v has the ID %d", x.kind, x.got)
		}
	}
	type a struct {
		X int32
		Y [2]float64
	}
	type b struct {
		P int32
		_ [2]float64
	}
	type inner struct{ Y [2]float64 }
	seen := map[uint32]string{}
	for name, id := range map[string]uint32{
		"a": describeOf[a](t), "[2]float64": describeOf[[2]float64](t), "[4]float32": describeOf[[4]float32](t),
		"nested": describeOf[struct {
			X int32
			Z inner
		}](t),
		"[3]a": describeOf[[3]a](t), "short": describeOf[struct{ X, Y int8 }](t), "padded": describeOf[struct {
			X int64
			Y int8
		}](t),
	} {
		if id&engine.LayoutType == 0 || seen[id] != "" {
			t.Errorf("%s and %q have the ID %#x", name, seen[id], id)
		}
		seen[id] = name
	}
	if describeOf[a](t) != describeOf[b](t) {
		t.Error("names make a difference")
	}
}

func TestRefusedTypes(t *testing.T) {
	type deep struct {
		A int
		B [3]struct{ C, D []byte }
	}
	_, err := elem[deep]()
	if !errors.Is(err, ErrType) || !strings.Contains(err.Error(), "mpi.deep") || !strings.Contains(err.Error(), "field B") || !strings.Contains(err.Error(), "[]uint8") {
		t.Errorf("%v", err)
	}
	for _, err := range []error{refused[string](), refused[*int](), refused[map[int]int](), refused[func()](), refused[chan int](), refused[any](), refused[unsafe.Pointer](), refused[struct{}](), refused[[0]int]()} {
		if !errors.Is(err, ErrType) {
			t.Errorf("%v", err)
		}
	}
}

// The text says what elements must be, not what a string is.
func TestRefusedText(t *testing.T) {
	const want = "string cannot be sent: elements must have a fixed size and no pointers, but string refers to other memory; use SendObject or []byte"
	if err := refused[string](); !strings.HasSuffix(err.Error(), want) {
		t.Error(err)
	}
}

// Errors name no elements where the program gives none.
func TestCollectiveName(t *testing.T) {
	choice, err := elem[choice]()
	if err != nil {
		t.Fatal(err)
	}
	for want, x := range map[string]*collective{
		"Split(call 1)":                  {kind: kindSplit, t: choice, bytes: choice.Size, seq: 1},
		"Barrier(call 2)":                {kind: kindBarrier, t: &basics[reflect.Uint8], seq: 2},
		"Dup(call 3)":                    {kind: kindDup, bytes: -1, seq: 3},
		"Bcast(root 1, 2 uint8, call 4)": {kind: kindBcast, root: 1, t: &basics[reflect.Uint8], bytes: 2, seq: 4},
		"Allgather(0 uint8, call 5)":     {kind: kindAllgather, t: &basics[reflect.Uint8], seq: 5},
	} {
		if got := x.name(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func refused[T any]() error { _, err := elem[T](); return err }

// Swap turns the bytes of one order into those of the other, and back.
func TestSwap(t *testing.T) {
	type record struct {
		A uint16
		B [2]uint32
		C complex64
		D struct {
			E bool
			F uint64
		}
	}
	d, err := elem[record]()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(t, "n")
		little, big := make([]byte, n*d.Size), make([]byte, n*d.Size)
		u64 := rapid.Uint64()
		for i := range n {
			off := i * d.Size
			put := func(at uintptr, size int) {
				v := u64.Draw(t, "v")
				lo, hi := little[off+int(at):], big[off+int(at):]
				switch size {
				case 2:
					binary.LittleEndian.PutUint16(lo, uint16(v))
					binary.BigEndian.PutUint16(hi, uint16(v))
				case 4:
					binary.LittleEndian.PutUint32(lo, uint32(v))
					binary.BigEndian.PutUint32(hi, uint32(v))
				case 8:
					binary.LittleEndian.PutUint64(lo, v)
					binary.BigEndian.PutUint64(hi, v)
				}
			}
			var r record
			put(unsafe.Offsetof(r.A), 2)
			put(unsafe.Offsetof(r.B), 4)
			put(unsafe.Offsetof(r.B)+4, 4)
			put(unsafe.Offsetof(r.C), 4)
			put(unsafe.Offsetof(r.C)+4, 4)
			put(unsafe.Offsetof(r.D)+unsafe.Offsetof(r.D.F), 8)
		}
		swapped := append([]byte(nil), little...)
		d.Swap(swapped)
		if string(swapped) != string(big) {
			t.Fatalf("%x, want %x", swapped, big)
		}
		d.Swap(swapped)
		if string(swapped) != string(little) {
			t.Fatalf("and back: %x, want %x", swapped, little)
		}
	})
}

func TestContexts(t *testing.T) {
	seen := map[uint64]bool{watchContext: true}
	for parent := range uint64(50) {
		for n := range uint64(50) {
			for _, colour := range []string{"dup", "0", "1"} {
				x := contextOf(parent<<1, n, colour)
				if x&1 != 0 || seen[x] {
					t.Fatalf("context %#x of %d, %d, %s", x, parent, n, colour)
				}
				seen[x] = true
			}
		}
	}
}

func BenchmarkElem(b *testing.B) {
	for range b.N {
		if _, err := elem[float64](); err != nil {
			b.Fatal(err)
		}
	}
}

// More than four words, or fields, and every Isend would wait for the stores of
// the one before.
func TestRequestFitsRegisters(t *testing.T) {
	for _, rt := range []reflect.Type{reflect.TypeFor[Request](), reflect.TypeFor[engine.Request]()} {
		if rt.Size() > 32 || rt.NumField() > 4 {
			t.Errorf("%v has %d bytes in %d fields", rt, rt.Size(), rt.NumField())
		}
	}
}
