package mpi

// Persistent collectives. Each takes its place in the communicator's sequence of calls when it is made, so all ranks make
// them in the same order; it waits for nobody. Counts and displacements are read then. In place, and the errors
// that come with a request, are as in the I... form: see icoll.go.

// settled is a Persistent for a collective.
func settled(f *flight, err error) (*Persistent, error) {
	if err != nil {
		return nil, err
	}
	return &Persistent{c: f.c, op: opCollective, f: f}, nil
}

// BarrierInit makes a persistent Barrier. Errors at the call: as Ibarrier. (MPI-4.1, chapter 6.13.1)
func BarrierInit(c *Comm) (*Persistent, error) {
	return settled(flyBarrier(c, persistent))
}

// BcastInit makes a persistent Bcast. Errors at the call: as Ibcast. (MPI-4.1, chapter 6.13.2)
func BcastInit[T any](c *Comm, buf []T, root int) (*Persistent, error) {
	return settled(flyBcast(c, persistent, buf, root))
}

// GatherInit makes a persistent Gather. Errors at the call: as Igather. (MPI-4.1, chapter 6.13.3)
func GatherInit[T any](c *Comm, send, recv []T, root int) (*Persistent, error) {
	return settled(flyPortions(c, kindGather|persistent, send, recv, root))
}

// GathervInit makes a persistent Gatherv. Errors at the call: as Igatherv. (MPI-4.1, chapter 6.13.3)
func GathervInit[T any](c *Comm, send, recv []T, counts, displs []int, root int) (*Persistent, error) {
	return settled(flyPortionsv(c, kindGatherv|persistent, send, recv, counts, displs, root))
}

// ScatterInit makes a persistent Scatter. Errors at the call: as Iscatter. (MPI-4.1, chapter 6.13.4)
func ScatterInit[T any](c *Comm, send, recv []T, root int) (*Persistent, error) {
	return settled(flyPortions(c, kindScatter|persistent, recv, send, root))
}

// ScattervInit makes a persistent Scatterv. Errors at the call: as Iscatterv. (MPI-4.1, chapter 6.13.4)
func ScattervInit[T any](c *Comm, send []T, counts, displs []int, recv []T, root int) (*Persistent, error) {
	return settled(flyPortionsv(c, kindScatterv|persistent, recv, send, counts, displs, root))
}

// AllgatherInit makes a persistent Allgather. Errors at the call: as Iallgather. (MPI-4.1, chapter 6.13.5)
func AllgatherInit[T any](c *Comm, send, recv []T) (*Persistent, error) {
	return settled(flyAllgather(c, persistent, send, recv))
}

// AllgathervInit makes a persistent Allgatherv. Errors at the call: as Iallgatherv. (MPI-4.1, chapter 6.13.5)
func AllgathervInit[T any](c *Comm, send, recv []T, counts, displs []int) (*Persistent, error) {
	return settled(flyAllgatherv(c, persistent, send, recv, counts, displs))
}

// AlltoallInit makes a persistent Alltoall. Errors at the call: as Ialltoall. (MPI-4.1, chapter 6.13.6)
func AlltoallInit[T any](c *Comm, send, recv []T) (*Persistent, error) {
	return settled(flyAlltoall(c, persistent, send, recv))
}

// AlltoallvInit makes a persistent Alltoallv. Errors at the call: as Ialltoallv. (MPI-4.1, chapter 6.13.6)
func AlltoallvInit[T any](c *Comm, send []T, scounts, sdispls []int, recv []T, rcounts, rdispls []int) (*Persistent, error) {
	return settled(flyAlltoallv(c, persistent, send, scounts, sdispls, recv, rcounts, rdispls))
}

// ReduceInit makes a persistent Reduce. Errors at the call: as Ireduce. (MPI-4.1, chapter 6.13.7)
func ReduceInit[T any](c *Comm, send, recv []T, op Op[T], root int) (*Persistent, error) {
	return settled(flyReduce(c, persistent, send, recv, op, root))
}

// AllreduceInit makes a persistent Allreduce. Errors at the call: as Iallreduce. (MPI-4.1, chapter 6.13.8)
func AllreduceInit[T any](c *Comm, send, recv []T, op Op[T]) (*Persistent, error) {
	return settled(flyAllreduce(c, persistent, send, recv, op))
}

// ReduceScatterBlockInit makes a persistent ReduceScatterBlock. Errors at the call: as IreduceScatterBlock. (MPI-4.1, chapter 6.13.9)
func ReduceScatterBlockInit[T any](c *Comm, send, recv []T, op Op[T]) (*Persistent, error) {
	return settled(flyReduceScatterBlock(c, persistent, send, recv, op))
}

// ReduceScatterInit makes a persistent ReduceScatter. Errors at the call: as IreduceScatter. (MPI-4.1, chapter 6.13.10)
func ReduceScatterInit[T any](c *Comm, send, recv []T, counts []int, op Op[T]) (*Persistent, error) {
	return settled(flyReduceScatter(c, persistent, send, recv, counts, op))
}

// ScanInit makes a persistent Scan. Errors at the call: as Iscan. (MPI-4.1, chapter 6.13.11)
func ScanInit[T any](c *Comm, send, recv []T, op Op[T]) (*Persistent, error) {
	return settled(flyScan(c, kindScan|persistent, send, recv, op))
}

// ExscanInit makes a persistent Exscan. Errors at the call: as Iexscan. (MPI-4.1, chapter 6.13.12)
func ExscanInit[T any](c *Comm, send, recv []T, op Op[T]) (*Persistent, error) {
	return settled(flyScan(c, kindExscan|persistent, send, recv, op))
}
