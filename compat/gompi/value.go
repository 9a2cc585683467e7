package mpi

import gorun "github.com/gorun-mpi/gorun/mpi"

func sendOne[T any](o Communicator, v T, to, tag int) {
	must(o.comm, gorun.SendValue(o.comm, v, to, tag))
}

func receiveOne[T any](o Communicator, from, tag int) (T, Status) {
	v, s, err := gorun.RecvValue[T](o.comm, from, tag)
	must(o.comm, err)
	return v, Status{s}
}

// SendByte sends one element to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendByte(v byte, toID int, tag int) { sendOne(o, v, toID, tag) }

// RecvByte receives one element. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvByte(fromID, tag int) (byte, Status) {
	return receiveOne[byte](o, fromID, tag)
}

// SendUint32 sends one element to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendUint32(v uint32, toID int, tag int) { sendOne(o, v, toID, tag) }

// RecvUint32 receives one element. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvUint32(fromID, tag int) (uint32, Status) {
	return receiveOne[uint32](o, fromID, tag)
}

// SendInt32 sends one element to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendInt32(v int32, toID int, tag int) { sendOne(o, v, toID, tag) }

// RecvInt32 receives one element. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvInt32(fromID, tag int) (int32, Status) {
	return receiveOne[int32](o, fromID, tag)
}

// SendUint64 sends one element to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendUint64(v uint64, toID int, tag int) { sendOne(o, v, toID, tag) }

// RecvUint64 receives one element. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvUint64(fromID, tag int) (uint64, Status) {
	return receiveOne[uint64](o, fromID, tag)
}

// SendInt64 sends one element to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendInt64(v int64, toID int, tag int) { sendOne(o, v, toID, tag) }

// RecvInt64 receives one element. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvInt64(fromID, tag int) (int64, Status) {
	return receiveOne[int64](o, fromID, tag)
}

// SendFloat64 sends one element to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendFloat64(v float64, toID int, tag int) { sendOne(o, v, toID, tag) }

// RecvFloat64 receives one element. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvFloat64(fromID, tag int) (float64, Status) {
	return receiveOne[float64](o, fromID, tag)
}

// SendComplex128 sends one element to rank toID. (MPI-4.1, chapter 3.2.1)
func (o Communicator) SendComplex128(v complex128, toID int, tag int) { sendOne(o, v, toID, tag) }

// RecvComplex128 receives one element. (MPI-4.1, chapter 3.2.4)
func (o Communicator) RecvComplex128(fromID, tag int) (complex128, Status) {
	return receiveOne[complex128](o, fromID, tag)
}
