// Package endian tells the byte order of this machine.
package endian

import "encoding/binary"

// Big is true where the most significant byte comes first.
var Big = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// Byte orders as they are named on the wire.
const (
	NameLittle = 1
	NameBig    = 2
)

// Name is the name of this machine's.
var Name = func() byte {
	if Big {
		return NameBig
	}
	return NameLittle
}()
