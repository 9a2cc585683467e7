package mpi

// Collectives that go on while the program computes. Each is the blocking call of the same name with a request: see
// there for what it does. The buffers belong to the library until the request completes; counts and displacements
// are read at the call. In place means the same slice twice. All ranks begin the calls of a communicator in the same
// order, blocking ones included, and may end them in any order. No call waits for one that was begun before it. An
// operator of the program is called on a goroutine of the library's, which has nothing else to do: it may call the library.
//
// Errors at the call are those of its arguments, and ErrPoisoned. Later errors come with the request, and the
// communicator fails with them on all ranks: ErrMismatch, ErrOp, ErrPeerFailed, ErrPoisoned. After ErrDeadline the request is
// still active.

// Ibarrier begins Barrier. Errors: ErrComm, ErrPoisoned; with the request ErrMismatch, ErrPeerFailed. (MPI-4.1, chapter
// 6.12.1)
func Ibarrier(c *Comm) (Request, error) { return launch(flyBarrier(c, begun)) }

// Ibcast begins Bcast. Errors: ErrRank, ErrType, ErrComm, ErrPoisoned; with the request ErrMismatch, ErrPeerFailed. (MPI-4.1,
// chapter 6.12.2)
func Ibcast[T any](c *Comm, buf []T, root int) (Request, error) {
	return launch(flyBcast(c, begun, buf, root))
}

// Igather begins Gather. In place the root's send is its own block of recv. Errors: ErrRank, ErrCount, ErrBuffer, ErrType,
// ErrComm, ErrPoisoned; with the request ErrMismatch, ErrPeerFailed. (MPI-4.1, chapter 6.12.3)
func Igather[T any](c *Comm, send, recv []T, root int) (Request, error) {
	return launch(flyPortions(c, kindGather|begun, send, recv, root))
}

// Igatherv begins Gatherv. Errors: as Igather. (MPI-4.1, chapter 6.12.3)
func Igatherv[T any](c *Comm, send, recv []T, counts, displs []int, root int) (Request, error) {
	return launch(flyPortionsv(c, kindGatherv|begun, send, recv, counts, displs, root))
}

// Iscatter begins Scatter. In place the root's recv is its own block of send. Errors: as Igather. (MPI-4.1, chapter 6.12.4)
func Iscatter[T any](c *Comm, send, recv []T, root int) (Request, error) {
	return launch(flyPortions(c, kindScatter|begun, recv, send, root))
}

// Iscatterv begins Scatterv. Errors: as Igather. (MPI-4.1, chapter 6.12.4)
func Iscatterv[T any](c *Comm, send []T, counts, displs []int, recv []T, root int) (Request, error) {
	return launch(flyPortionsv(c, kindScatterv|begun, recv, send, counts, displs, root))
}

// Iallgather begins Allgather. In place send is the rank's own block of recv. Errors: ErrCount, ErrBuffer, ErrType, ErrComm,
// ErrPoisoned; with the request ErrMismatch, ErrPeerFailed. (MPI-4.1, chapter 6.12.5)
func Iallgather[T any](c *Comm, send, recv []T) (Request, error) {
	return launch(flyAllgather(c, begun, send, recv))
}

// Iallgatherv begins Allgatherv. Errors: as Iallgather. (MPI-4.1, chapter 6.12.5)
func Iallgatherv[T any](c *Comm, send, recv []T, counts, displs []int) (Request, error) {
	return launch(flyAllgatherv(c, begun, send, recv, counts, displs))
}

// Ialltoall begins Alltoall. Errors: as Iallgather. (MPI-4.1, chapter 6.12.6)
func Ialltoall[T any](c *Comm, send, recv []T) (Request, error) {
	return launch(flyAlltoall(c, begun, send, recv))
}

// Ialltoallv begins Alltoallv. In place both buffers have the same blocks. Errors: as Iallgather. (MPI-4.1, chapter 6.12.6)
func Ialltoallv[T any](c *Comm, send []T, scounts, sdispls []int, recv []T, rcounts, rdispls []int) (Request, error) {
	return launch(flyAlltoallv(c, begun, send, scounts, sdispls, recv, rcounts, rdispls))
}

// Ireduce begins Reduce. The result has the same bits. Errors: ErrRank, ErrCount, ErrBuffer, ErrOp, ErrType, ErrComm,
// ErrPoisoned; with the request ErrMismatch, ErrOp, ErrPeerFailed. (MPI-4.1, chapter 6.12.7)
func Ireduce[T any](c *Comm, send, recv []T, op Op[T], root int) (Request, error) {
	return launch(flyReduce(c, begun, send, recv, op, root))
}

// Iallreduce begins Allreduce. The result has the same bits, unless that of Allreduce is combined round a ring. Errors: as
// Ireduce. (MPI-4.1, chapter 6.12.8)
func Iallreduce[T any](c *Comm, send, recv []T, op Op[T]) (Request, error) {
	return launch(flyAllreduce(c, begun, send, recv, op))
}

// IreduceScatterBlock begins ReduceScatterBlock. In place the result is the beginning of the buffer. Errors: as Ireduce.
// (MPI-4.1, chapter 6.12.9)
func IreduceScatterBlock[T any](c *Comm, send, recv []T, op Op[T]) (Request, error) {
	return launch(flyReduceScatterBlock(c, begun, send, recv, op))
}

// IreduceScatter begins ReduceScatter. In place the result is the beginning of the buffer. Errors: as Ireduce. (MPI-4.1,
// chapter 6.12.10)
func IreduceScatter[T any](c *Comm, send, recv []T, counts []int, op Op[T]) (Request, error) {
	return launch(flyReduceScatter(c, begun, send, recv, counts, op))
}

// Iscan begins Scan. Errors: as Ireduce. (MPI-4.1, chapter 6.12.11)
func Iscan[T any](c *Comm, send, recv []T, op Op[T]) (Request, error) {
	return launch(flyScan(c, kindScan|begun, send, recv, op))
}

// Iexscan begins Exscan. Errors: as Ireduce. (MPI-4.1, chapter 6.12.12)
func Iexscan[T any](c *Comm, send, recv []T, op Op[T]) (Request, error) {
	return launch(flyScan(c, kindExscan|begun, send, recv, op))
}
