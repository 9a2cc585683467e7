package self

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/gorun-mpi/gorun/cr/image"
)

// order reads and writes the numbers of an image.
type order interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// byteOrder is the order of an image's numbers.
func byteOrder(bigEndian bool) order {
	if bigEndian {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// swapFixed turns a block of values of the fixed type p between byte orders.
func swapFixed(p *plan, b []byte) {
	switch p.t.Kind() {
	case reflect.Array:
		if p.n > 0 {
			swapFixed(p.elem, b)
		}
		return
	case reflect.Struct:
		for size := int(p.size); size > 0 && len(b) >= size; b = b[size:] {
			for _, f := range p.fields {
				swapFixed(f.plan, b[f.offset:f.offset+f.plan.size])
			}
		}
		return
	}
	width := int(p.size)
	if k := p.t.Kind(); k == reflect.Complex64 || k == reflect.Complex128 {
		width /= 2
	}
	switch width {
	case 2:
		for ; len(b) >= 2; b = b[2:] {
			binary.BigEndian.PutUint16(b, binary.LittleEndian.Uint16(b))
		}
	case 4:
		for ; len(b) >= 4; b = b[4:] {
			binary.BigEndian.PutUint32(b, binary.LittleEndian.Uint32(b))
		}
	case 8:
		for ; len(b) >= 8; b = b[8:] {
			binary.BigEndian.PutUint64(b, binary.LittleEndian.Uint64(b))
		}
	}
}

// checkBools makes sure that every byte that Go takes for a bool is 0 or 1. Any other would make a program
// behave in undefined ways.
func checkBools(p *plan, b []byte) error {
	if !p.hasBool {
		return nil
	}
	switch p.t.Kind() {
	case reflect.Bool:
		for _, x := range b {
			if x > 1 {
				return fmt.Errorf("%w: a bool of value %d", image.ErrCorrupt, x)
			}
		}
	case reflect.Array:
		return checkBools(p.elem, b)
	case reflect.Struct:
		for size := int(p.size); size > 0 && len(b) >= size; b = b[size:] {
			for _, f := range p.fields {
				if err := checkBools(f.plan, b[f.offset:f.offset+f.plan.size]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// clearPadding clears the bytes between fields in a block of values of the fixed type p. What lies there is chance.
func clearPadding(p *plan, b []byte) {
	switch p.t.Kind() {
	case reflect.Array:
		if p.padded {
			clearPadding(p.elem, b)
		}
	case reflect.Struct:
		for size := int(p.size); p.padded && len(b) >= size; b = b[size:] {
			end := uintptr(0)
			for _, f := range p.fields {
				clear(b[end:f.offset])
				end = f.offset + f.plan.size
				clearPadding(f.plan, b[f.offset:end])
			}
			clear(b[end:size])
		}
	}
}
