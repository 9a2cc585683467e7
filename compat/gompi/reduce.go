package mpi

// ReduceBytes combines orig of all ranks element by element into dest of the root. dest is as long on all ranks, and another
// slice than orig. It returns an error if op is no operation on byte. (MPI-4.1, chapter 6.9.1)
func (o Communicator) ReduceBytes(dest, orig []byte, op Op, root int) error {
	return reduce(o, dest, orig, Byte, op, ofInteger[byte](op), root)
}

// ReduceUint32s combines orig of all ranks element by element into dest of the root. dest is as long on all ranks, and another
// slice than orig. It returns an error if op is no operation on uint32. (MPI-4.1, chapter 6.9.1)
func (o Communicator) ReduceUint32s(dest, orig []uint32, op Op, root int) error {
	return reduce(o, dest, orig, Uint, op, ofInteger[uint32](op), root)
}

// ReduceInt32s combines orig of all ranks element by element into dest of the root. dest is as long on all ranks, and another
// slice than orig. It returns an error if op is no operation on int32. (MPI-4.1, chapter 6.9.1)
func (o Communicator) ReduceInt32s(dest, orig []int32, op Op, root int) error {
	return reduce(o, dest, orig, Int, op, ofInteger[int32](op), root)
}

// ReduceUint64s combines orig of all ranks element by element into dest of the root. dest is as long on all ranks, and another
// slice than orig. It returns an error if op is no operation on uint64. (MPI-4.1, chapter 6.9.1)
func (o Communicator) ReduceUint64s(dest, orig []uint64, op Op, root int) error {
	return reduce(o, dest, orig, Ulong, op, ofInteger[uint64](op), root)
}

// ReduceInt64s combines orig of all ranks element by element into dest of the root. dest is as long on all ranks, and another
// slice than orig. It returns an error if op is no operation on int64. (MPI-4.1, chapter 6.9.1)
func (o Communicator) ReduceInt64s(dest, orig []int64, op Op, root int) error {
	return reduce(o, dest, orig, Long, op, ofInteger[int64](op), root)
}

// ReduceFloat32s combines orig of all ranks element by element into dest of the root. dest is as long on all ranks, and another
// slice than orig. It returns an error if op is no operation on float32. (MPI-4.1, chapter 6.9.1)
func (o Communicator) ReduceFloat32s(dest, orig []float32, op Op, root int) error {
	return reduce(o, dest, orig, Float, op, ofReal[float32](op), root)
}

// ReduceFloat64s combines orig of all ranks element by element into dest of the root. dest is as long on all ranks, and another
// slice than orig. It returns an error if op is no operation on float64. (MPI-4.1, chapter 6.9.1)
func (o Communicator) ReduceFloat64s(dest, orig []float64, op Op, root int) error {
	return reduce(o, dest, orig, Double, op, ofReal[float64](op), root)
}

// ReduceComplex128s combines orig of all ranks element by element into dest of the root. dest is as long on all ranks, and another
// slice than orig. It returns an error if op is no operation on complex128. (MPI-4.1, chapter 6.9.1)
func (o Communicator) ReduceComplex128s(dest, orig []complex128, op Op, root int) error {
	return reduce(o, dest, orig, Complex, op, ofNumber[complex128](op), root)
}
