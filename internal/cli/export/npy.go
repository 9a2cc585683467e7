package export

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// WriteNPY writes the array as a .npy file of NumPy (format 1.0, NEP 1):
//
//	"\x93NUMPY" 1 0, length of the head u16, head, data
//
// The head is a literal of Python that says type, order and shape. It is padded with spaces so that the data begin at
// a multiple of 64.
func WriteNPY(w io.Writer, a *Array) error {
	var shape strings.Builder
	for _, n := range a.Shape {
		fmt.Fprintf(&shape, "%d,", n)
	}
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", a.descr(), shape.String())
	const before = 10
	head += strings.Repeat(" ", 63-(before+len(head))%64) + "\n"
	b := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(head)))
	if _, err := w.Write(append(b, head...)); err != nil {
		return err
	}
	return a.each(func(p []byte) error {
		_, err := w.Write(p)
		return err
	})
}

// descr is NumPy's word for the element.
func (a *Array) descr() string {
	order := "<"
	switch {
	case a.Size == 1:
		order = "|"
	case a.BigEndian:
		order = ">"
	}
	return fmt.Sprintf("%s%c%d", order, a.Class, a.Size)
}
