package mpi

import gorun "github.com/gorun-mpi/gorun/mpi"

// bcast sends x of the root to all ranks.
func bcast[T any](o Communicator, x []T, root int) { must(o.comm, gorun.Bcast(o.comm, x, root)) }

// BcastBytes replaces x by that of the root. All slices are of one length. (MPI-4.1, chapter 6.4)
func (o Communicator) BcastBytes(x []byte, root int) { bcast(o, x, root) }

// BcastUint32s replaces x by that of the root. All slices are of one length. (MPI-4.1, chapter 6.4)
func (o Communicator) BcastUint32s(x []uint32, root int) { bcast(o, x, root) }

// BcastInt32s replaces x by that of the root. All slices are of one length. (MPI-4.1, chapter 6.4)
func (o Communicator) BcastInt32s(x []int32, root int) { bcast(o, x, root) }

// BcastUint64s replaces x by that of the root. All slices are of one length. (MPI-4.1, chapter 6.4)
func (o Communicator) BcastUint64s(x []uint64, root int) { bcast(o, x, root) }

// BcastInt64s replaces x by that of the root. All slices are of one length. (MPI-4.1, chapter 6.4)
func (o Communicator) BcastInt64s(x []int64, root int) { bcast(o, x, root) }

// BcastFloat32s replaces x by that of the root. All slices are of one length. (MPI-4.1, chapter 6.4)
func (o Communicator) BcastFloat32s(x []float32, root int) { bcast(o, x, root) }

// BcastFloat64s replaces x by that of the root. All slices are of one length. (MPI-4.1, chapter 6.4)
func (o Communicator) BcastFloat64s(x []float64, root int) { bcast(o, x, root) }

// BcastComplex128s replaces x by that of the root. All slices are of one length. (MPI-4.1, chapter 6.4)
func (o Communicator) BcastComplex128s(x []complex128, root int) { bcast(o, x, root) }
