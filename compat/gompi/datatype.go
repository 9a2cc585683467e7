package mpi

import (
	"fmt"
)

// DataType names a type of elements, for GetCount. (MPI-4.1, chapter 3.2.2)
type DataType uint8

// The types, with what they are in Go.
const (
	Byte    DataType = iota
	Uint             // uint32
	Int              // int32
	Ulong            // uint64
	Long             // int64
	Float            // float32
	Double           // float64
	Complex          // complex128
)

var types = [...]struct {
	name string
	size int
}{{"Byte", 1}, {"Uint", 4}, {"Int", 4}, {"Ulong", 8}, {"Long", 8}, {"Float", 4}, {"Double", 8}, {"Complex", 16}}

// String returns the name of the constant.
func (d DataType) String() string {
	if int(d) >= len(types) {
		return fmt.Sprintf("DataType(%d)", uint8(d))
	}
	return types[d].name
}

// size returns the number of bytes of an element, 0 if there is no such type.
func (d DataType) size() int {
	if int(d) >= len(types) {
		return 0
	}
	return types[d].size
}
