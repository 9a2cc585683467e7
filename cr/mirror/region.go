package mirror

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"unsafe"
)

// region is memory of the program.
type region struct {
	name string
	ptr  reflect.Value // to a slice, or to a value of fixed size
	elem reflect.Type
}

// newRegion refuses types with pointers: their values mean nothing elsewhere.
func newRegion(name string, ptr any) (region, error) {
	v := reflect.ValueOf(ptr)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return region{}, fmt.Errorf("region %q: %T is no pointer to a variable", name, ptr)
	}
	t := v.Type().Elem()
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if bad := pointers(t); bad != nil {
		return region{}, fmt.Errorf("region %q: %v has pointers in it (%v): only numbers, booleans, and arrays, structs and one slice of these", name, v.Type().Elem(), bad)
	}
	return region{name, v, t}, nil
}

// pointers returns the type within t that keeps it from being copied as it is, nil if none does.
func pointers(t reflect.Type) reflect.Type {
	switch k := t.Kind(); {
	case k >= reflect.Bool && k <= reflect.Complex128 && k != reflect.Uintptr:
		return nil
	case k == reflect.Array:
		return pointers(t.Elem())
	case k == reflect.Struct:
		for i := range t.NumField() {
			if bad := pointers(t.Field(i).Type); bad != nil {
				return bad
			}
		}
		return nil
	}
	return t
}

// bytes is the region's memory as it is now.
func (r *region) bytes() []byte {
	v := r.ptr.Elem()
	if v.Kind() != reflect.Slice {
		return unsafe.Slice((*byte)(r.ptr.UnsafePointer()), r.elem.Size())
	}
	n := v.Len() * int(r.elem.Size())
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(v.UnsafePointer()), n)
}

// resize gives a slice the length for so many bytes.
func (r *region) resize(n int64) error {
	v, size := r.ptr.Elem(), int64(r.elem.Size())
	if v.Kind() != reflect.Slice {
		if n != size {
			return fmt.Errorf("region %q: %d bytes, and %v has %d: %w", r.name, n, v.Type(), size, ErrMismatch)
		}
		return nil
	}
	if size == 0 || n%size != 0 {
		return fmt.Errorf("region %q: %d bytes are no whole number of %v: %w", r.name, n, r.elem, ErrMismatch)
	}
	if count := int(n / size); count <= v.Cap() {
		v.SetLen(count)
	} else {
		v.Set(reflect.MakeSlice(v.Type(), count, count))
	}
	return nil
}

// contents is the first block of an image: what its regions are.
type contents struct {
	Arch    string
	Regions []content
}

type content struct {
	Name, Type string
	Size       int64
}

// lay describes the regions and tells the length of their image. The description is padded so that it takes whole
// blocks of 4096 bytes.
func lay(regions []region) (description []byte, size int64) {
	c := contents{Arch: runtime.GOARCH}
	for i := range regions {
		r := &regions[i]
		n := int64(len(r.bytes()))
		c.Regions = append(c.Regions, content{r.name, r.ptr.Type().Elem().String(), n})
		size += n
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	description = make([]byte, (8+len(text)+4095)/4096*4096)
	copy(description, fmt.Sprintf("%08d", len(text)))
	copy(description[8:], text)
	return description, size + int64(len(description))
}

// pack copies the regions into an image.
func pack(image, description []byte, regions []region) {
	rest := image[copy(image, description):]
	for i := range regions {
		rest = rest[copy(rest, regions[i].bytes()):]
	}
}

// unpack copies an image into the regions.
func unpack(image []byte, regions []region) error {
	var c contents
	n := 0
	if len(image) >= 8 {
		fmt.Sscanf(string(image[:8]), "%08d", &n)
	}
	if n <= 0 || n > len(image)-8 {
		return fmt.Errorf("an image without a description: %w", ErrMismatch)
	}
	if err := json.Unmarshal(image[8:8+n], &c); err != nil {
		return fmt.Errorf("%v: %w", err, ErrMismatch)
	}
	if c.Arch != runtime.GOARCH {
		return fmt.Errorf("it was written on %s, and this is %s: %w", c.Arch, runtime.GOARCH, ErrMismatch)
	}
	if len(c.Regions) != len(regions) {
		return fmt.Errorf("it has %d regions, and the program %d: %w", len(c.Regions), len(regions), ErrMismatch)
	}
	rest := image[min(len(image), (8+n+4095)/4096*4096):]
	for i, was := range c.Regions {
		r := &regions[i]
		if now := r.ptr.Type().Elem().String(); was.Name != r.name || was.Type != now {
			return fmt.Errorf("region %d is %q of %s, and the program has %q of %s: %w", i, was.Name, was.Type, r.name, now, ErrMismatch)
		}
		if was.Size < 0 || was.Size > int64(len(rest)) {
			return fmt.Errorf("region %q is longer than the image: %w", was.Name, ErrMismatch)
		}
		if err := r.resize(was.Size); err != nil {
			return err
		}
		copy(r.bytes(), rest)
		rest = rest[was.Size:]
	}
	return nil
}
