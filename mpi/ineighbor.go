package mpi

// Neighbourhood collectives that go on while the program computes, and persistent ones. What icoll.go and
// persistentcoll.go say of collectives holds for them. Buffers that share memory are ErrBuffer.

// IneighborAllgather begins NeighborAllgather. Errors: as Iallgather; ErrMismatch if a rank does not send itself what it receives from
// itself. (MPI-4.1, chapter 8.7.1)
func IneighborAllgather[T any](t Topology, send, recv []T) (Request, error) {
	s := swapAllgather(t, send, recv)
	return launch(s.fly(begun))
}

// IneighborAllgatherv begins NeighborAllgatherv. Errors: as IneighborAllgather. (MPI-4.1, chapter 8.7.1)
func IneighborAllgatherv[T any](t Topology, send, recv []T, counts, displs []int) (Request, error) {
	s := swapAllgatherv(t, send, recv, counts, displs, make([]int, of(t).size()))
	return launch(s.fly(begun))
}

// IneighborAlltoall begins NeighborAlltoall. Errors: as IneighborAllgather. (MPI-4.1, chapter 8.7.2)
func IneighborAlltoall[T any](t Topology, send, recv []T) (Request, error) {
	s := swapAlltoall(t, send, recv)
	return launch(s.fly(begun))
}

// IneighborAlltoallv begins NeighborAlltoallv. Errors: as IneighborAllgather. (MPI-4.1, chapter 8.7.2)
func IneighborAlltoallv[T any](t Topology, send []T, scounts, sdispls []int, recv []T, rcounts, rdispls []int) (Request, error) {
	s := swapAlltoallv(t, send, scounts, sdispls, recv, rcounts, rdispls, make([]int, of(t).size()))
	return launch(s.fly(begun))
}

// IneighborAlltoallw begins NeighborAlltoallw. The views' elements belong to the library until the request completes. Errors: as
// IneighborAllgather, ErrLayout. (MPI-4.1, chapter 8.7.2)
func IneighborAlltoallw[T any](t Topology, send, recv []View[T]) (Request, error) {
	return launch(flyNeighborAlltoallw(t, begun, send, recv))
}

// NeighborAllgatherInit makes a persistent NeighborAllgather. Errors at the call: as IneighborAllgather. (MPI-4.1, chapter 8.8.1)
func NeighborAllgatherInit[T any](t Topology, send, recv []T) (*Persistent, error) {
	s := swapAllgather(t, send, recv)
	return settled(s.fly(persistent))
}

// NeighborAllgathervInit makes a persistent NeighborAllgatherv. Errors at the call: as IneighborAllgather. (MPI-4.1, chapter 8.8.1)
func NeighborAllgathervInit[T any](t Topology, send, recv []T, counts, displs []int) (*Persistent, error) {
	s := swapAllgatherv(t, send, recv, counts, displs, make([]int, of(t).size()))
	return settled(s.fly(persistent))
}

// NeighborAlltoallInit makes a persistent NeighborAlltoall. Errors at the call: as IneighborAllgather. (MPI-4.1, chapter 8.8.2)
func NeighborAlltoallInit[T any](t Topology, send, recv []T) (*Persistent, error) {
	s := swapAlltoall(t, send, recv)
	return settled(s.fly(persistent))
}

// NeighborAlltoallvInit makes a persistent NeighborAlltoallv. Errors at the call: as IneighborAllgather. (MPI-4.1, chapter 8.8.2)
func NeighborAlltoallvInit[T any](t Topology, send []T, scounts, sdispls []int, recv []T, rcounts, rdispls []int) (*Persistent, error) {
	s := swapAlltoallv(t, send, scounts, sdispls, recv, rcounts, rdispls, make([]int, of(t).size()))
	return settled(s.fly(persistent))
}

// NeighborAlltoallwInit makes a persistent NeighborAlltoallw. Errors at the call: as IneighborAlltoallw. (MPI-4.1, chapter 8.8.2)
func NeighborAlltoallwInit[T any](t Topology, send, recv []View[T]) (*Persistent, error) {
	return settled(flyNeighborAlltoallw(t, persistent, send, recv))
}

func flyNeighborAlltoallw[T any](t Topology, form kind, send, recv []View[T]) (*flight, error) {
	out, in, s := swapAlltoallw(t, send, recv)
	f, err := s.take(form)
	if err != nil {
		return nil, err
	}
	layRows(f, out, in, s.schedule)
	return f, nil
}
