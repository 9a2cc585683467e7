package self

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/cr/image"
)

// hostOrder is what lies in memory here.
var hostOrder = byteOrder(image.HostBigEndian)

// anyType draws a type that can be saved.
func anyType(t *rapid.T, depth int) reflect.Type {
	basic := []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[uint16](), reflect.TypeFor[int32](),
		reflect.TypeFor[uint64](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[complex64](),
		reflect.TypeFor[complex128](), reflect.TypeFor[string](), reflect.TypeFor[struct{}](),
	}
	choice := 0
	if depth > 0 {
		choice = rapid.IntRange(0, 4).Draw(t, "sort")
	}
	switch choice {
	case 1:
		return reflect.SliceOf(anyType(t, depth-1))
	case 2:
		return reflect.ArrayOf(rapid.IntRange(0, 3).Draw(t, "n"), anyType(t, depth-1))
	case 3:
		return reflect.MapOf(rapid.SampledFrom([]reflect.Type{
			reflect.TypeFor[string](), reflect.TypeFor[int32](), reflect.TypeFor[[2]uint16](), reflect.TypeFor[bool](),
		}).Draw(t, "key"), anyType(t, depth-1))
	case 4:
		var fs []reflect.StructField
		for i := range rapid.IntRange(0, 4).Draw(t, "fields") {
			fs = append(fs, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: anyType(t, depth-1)})
		}
		return reflect.StructOf(fs)
	}
	return rapid.SampledFrom(basic).Draw(t, "basic")
}

// fill sets v to something drawn.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "b"))
	case reflect.Int, reflect.Int8, reflect.Int32:
		v.SetInt(rapid.Int64().Draw(t, "i") >> (64 - v.Type().Bits()))
	case reflect.Uint16, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "u") >> (64 - v.Type().Bits()))
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32().Draw(t, "f")))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "f"))
	case reflect.Complex64, reflect.Complex128:
		v.SetComplex(complex(float64(rapid.Float32().Draw(t, "re")), float64(rapid.Float32().Draw(t, "im"))))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "s"))
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Slice:
		if n := rapid.IntRange(-1, 4).Draw(t, "len"); n >= 0 {
			// Sometimes long enough to be copied as big pieces.
			if n == 4 && v.Type().Elem().Kind() == reflect.Float64 {
				n = 20_000
			}
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range min(n, 4) {
				fill(t, v.Index(i))
			}
		}
	case reflect.Map:
		if n := rapid.IntRange(-1, 4).Draw(t, "len"); n >= 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n {
				k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				fill(t, k)
				fill(t, e)
				v.SetMapIndex(k, e)
			}
		}
	}
}

// TestAnyRegistryComesBack saves random variables of random types in either
// byte order and restores them into fresh ones and into dirty ones.
func TestAnyRegistryComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := &Registry{swap: rapid.Bool().Draw(rt, "other order")}
		defer r.Close()
		var vars []reflect.Value
		for i := range rapid.IntRange(1, 4).Draw(rt, "vars") {
			v := reflect.New(anyType(rt, 3))
			fill(rt, v.Elem())
			if err := r.Register(fmt.Sprint(i), v.Interface()); err != nil {
				rt.Fatal(err)
			}
			vars = append(vars, v)
		}
		codec := rapid.SampledFrom([]image.Codec{image.None, image.Snappy, image.Zstd}).Draw(rt, "codec")
		s := save(t, r, nil, image.Options{Codec: codec, NoDirect: true})
		defer s.Close()
		for i, v := range vars {
			fresh := reflect.New(v.Type().Elem())
			if rapid.Bool().Draw(rt, "dirty") {
				fill(rt, fresh.Elem())
			}
			if err := s.Fill(fmt.Sprint(i), fresh.Interface()); err != nil {
				rt.Fatal(err)
			}
			if !reflect.DeepEqual(fresh.Interface(), v.Interface()) {
				rt.Fatalf("%v: %v, want %v", v.Type().Elem(), fresh.Elem(), v.Elem())
			}
		}
	})
}

// FuzzStream feeds damaged streams to the decoder: it may refuse them, and must
// not crash or take memory without bound.
func FuzzStream(f *testing.F) {
	st := sample()
	v, _ := describe("st", &st)
	s := &stream{order: hostOrder}
	if err := s.value(v.plan, v.ptr); err != nil {
		f.Fatal(err)
	}
	f.Add(s.buf, false)
	f.Add(encodeMessages(nil, hostOrder, false), true)
	f.Fuzz(func(t *testing.T, p []byte, other bool) {
		var got state
		v, _ := describe("st", &got)
		r := reading{order: hostOrder, rest: p, swap: other}
		if other {
			r.order = byteOrder(!image.HostBigEndian)
		}
		_ = r.value(v.plan, v.ptr, true)
		_, _ = decodeMessages(p, r.order, other)
	})
}
