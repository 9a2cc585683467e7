package mpi

// AllreduceBytes is ReduceBytes with the result on all ranks. root plays no part. (MPI-4.1, chapter 6.9.6)
func (o Communicator) AllreduceBytes(dest, orig []byte, op Op, root int) error {
	return allreduce(o, dest, orig, Byte, op, ofInteger[byte](op))
}

// AllreduceUint32s is ReduceUint32s with the result on all ranks. root plays no part. (MPI-4.1, chapter 6.9.6)
func (o Communicator) AllreduceUint32s(dest, orig []uint32, op Op, root int) error {
	return allreduce(o, dest, orig, Uint, op, ofInteger[uint32](op))
}

// AllreduceInt32s is ReduceInt32s with the result on all ranks. root plays no part. (MPI-4.1, chapter 6.9.6)
func (o Communicator) AllreduceInt32s(dest, orig []int32, op Op, root int) error {
	return allreduce(o, dest, orig, Int, op, ofInteger[int32](op))
}

// AllreduceUint64s is ReduceUint64s with the result on all ranks. root plays no part. (MPI-4.1, chapter 6.9.6)
func (o Communicator) AllreduceUint64s(dest, orig []uint64, op Op, root int) error {
	return allreduce(o, dest, orig, Ulong, op, ofInteger[uint64](op))
}

// AllreduceInt64s is ReduceInt64s with the result on all ranks. root plays no part. (MPI-4.1, chapter 6.9.6)
func (o Communicator) AllreduceInt64s(dest, orig []int64, op Op, root int) error {
	return allreduce(o, dest, orig, Long, op, ofInteger[int64](op))
}

// AllreduceFloat32s is ReduceFloat32s with the result on all ranks. root plays no part. (MPI-4.1, chapter 6.9.6)
func (o Communicator) AllreduceFloat32s(dest, orig []float32, op Op, root int) error {
	return allreduce(o, dest, orig, Float, op, ofReal[float32](op))
}

// AllreduceFloat64s is ReduceFloat64s with the result on all ranks. root plays no part. (MPI-4.1, chapter 6.9.6)
func (o Communicator) AllreduceFloat64s(dest, orig []float64, op Op, root int) error {
	return allreduce(o, dest, orig, Double, op, ofReal[float64](op))
}

// AllreduceComplex128s is ReduceComplex128s with the result on all ranks. root plays no part. (MPI-4.1, chapter 6.9.6)
func (o Communicator) AllreduceComplex128s(dest, orig []complex128, op Op, root int) error {
	return allreduce(o, dest, orig, Complex, op, ofNumber[complex128](op))
}
