package mpi

import gorun "github.com/gorun-mpi/gorun/mpi"

func send[T any](o Communicator, vals []T, to, tag int) {
	must(o.comm, gorun.Send(o.comm, vals, to, tag))
}

// receiveInto receives at most as many elements as vals has: a longer message ends the job.
func receiveInto[T any](o Communicator, vals []T, from, tag int) Status {
	s, err := gorun.Recv(o.comm, vals, from, tag)
	must(o.comm, err)
	return Status{s}
}

// receive allocates what the message needs.
func receive[T any](o Communicator, from, tag int) ([]T, Status) {
	vals, s, err := gorun.RecvAlloc[T](o.comm, from, tag)
	must(o.comm, err)
	return vals, Status{s}
}

// SendBytes sends vals to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendBytes(vals []byte, toID int, tag int) { send(o, vals, toID, tag) }

// RecvPreallocBytes receives a message of at most len(vals) elements. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvPreallocBytes(vals []byte, fromID int, tag int) Status {
	return receiveInto(o, vals, fromID, tag)
}

// RecvBytes receives a message of any length. (MPI-4.1, chapter 3.8.3)
func (o Communicator) RecvBytes(fromID int, tag int) ([]byte, Status) {
	return receive[byte](o, fromID, tag)
}

// SendUInt32s sends vals to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendUInt32s(vals []uint32, toID int, tag int) { send(o, vals, toID, tag) }

// RecvPreallocUint32s receives a message of at most len(vals) elements. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvPreallocUint32s(vals []uint32, fromID int, tag int) Status {
	return receiveInto(o, vals, fromID, tag)
}

// RecvUint32s receives a message of any length. (MPI-4.1, chapter 3.8.3)
func (o Communicator) RecvUint32s(fromID int, tag int) ([]uint32, Status) {
	return receive[uint32](o, fromID, tag)
}

// SendInt32s sends vals to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendInt32s(vals []int32, toID int, tag int) { send(o, vals, toID, tag) }

// RecvPreallocInt32s receives a message of at most len(vals) elements. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvPreallocInt32s(vals []int32, fromID int, tag int) Status {
	return receiveInto(o, vals, fromID, tag)
}

// RecvInt32s receives a message of any length. (MPI-4.1, chapter 3.8.3)
func (o Communicator) RecvInt32s(fromID int, tag int) ([]int32, Status) {
	return receive[int32](o, fromID, tag)
}

// SendUint64s sends vals to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendUint64s(vals []uint64, toID int, tag int) { send(o, vals, toID, tag) }

// RecvPreallocUint64s receives a message of at most len(vals) elements. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvPreallocUint64s(vals []uint64, fromID int, tag int) Status {
	return receiveInto(o, vals, fromID, tag)
}

// RecvUint64s receives a message of any length. (MPI-4.1, chapter 3.8.3)
func (o Communicator) RecvUint64s(fromID int, tag int) ([]uint64, Status) {
	return receive[uint64](o, fromID, tag)
}

// SendInt64s sends vals to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendInt64s(vals []int64, toID int, tag int) { send(o, vals, toID, tag) }

// RecvPreallocInt64s receives a message of at most len(vals) elements. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvPreallocInt64s(vals []int64, fromID int, tag int) Status {
	return receiveInto(o, vals, fromID, tag)
}

// RecvInt64s receives a message of any length. (MPI-4.1, chapter 3.8.3)
func (o Communicator) RecvInt64s(fromID int, tag int) ([]int64, Status) {
	return receive[int64](o, fromID, tag)
}

// SendFloat64s sends vals to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendFloat64s(vals []float64, toID int, tag int) { send(o, vals, toID, tag) }

// RecvPreallocFloat64s receives a message of at most len(vals) elements. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvPreallocFloat64s(vals []float64, fromID int, tag int) Status {
	return receiveInto(o, vals, fromID, tag)
}

// RecvFloat64s receives a message of any length. (MPI-4.1, chapter 3.8.3)
func (o Communicator) RecvFloat64s(fromID int, tag int) ([]float64, Status) {
	return receive[float64](o, fromID, tag)
}

// SendComplex128s sends vals to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendComplex128s(vals []complex128, toID int, tag int) { send(o, vals, toID, tag) }

// RecvPreallocComplex128s receives a message of at most len(vals) elements. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvPreallocComplex128s(vals []complex128, fromID int, tag int) Status {
	return receiveInto(o, vals, fromID, tag)
}

// RecvComplex128s receives a message of any length. (MPI-4.1, chapter 3.8.3)
func (o Communicator) RecvComplex128s(fromID int, tag int) ([]complex128, Status) {
	return receive[complex128](o, fromID, tag)
}

// SendString sends the bytes of s to rank toID.
func (o Communicator) SendString(s string, toID, tag int) { send(o, []byte(s), toID, tag) }

// RecvString receives what SendString or SendBytes has sent.
func (o Communicator) RecvString(fromID, tag int) (string, Status) {
	b, s := receive[byte](o, fromID, tag)
	return string(b), s
}
