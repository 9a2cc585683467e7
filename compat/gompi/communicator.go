package mpi

import (
	"errors"

	gorun "github.com/gorun-mpi/gorun/mpi"
)

// Communicator is the world, or some ranks of it with messages of their own. (MPI-4.1, chapter 7)
type Communicator struct {
	comm *gorun.Comm // nil: this rank is no member
}

// NewCommunicator returns a communicator of these ranks of the world, in this order. All ranks of the world call it,
// also those that are not in the list. Without ranks it returns the world. (MPI-4.1, chapter 7.4.2, MPI_Comm_create)
func NewCommunicator(ranks []int) Communicator { return among(world(), ranks) }

// Wrap returns the communicator of this package for one of gorun's own. The original has no such call: it is for
// programs that change over step by step, and for tests by package mpitest.
func Wrap(c *gorun.Comm) Communicator { return Communicator{c} }

// Comm returns the communicator of gorun below, nil if this rank is no member. The original has no such call.
func (o Communicator) Comm() *gorun.Comm { return o.comm }

func among(w *gorun.Comm, ranks []int) Communicator {
	if len(ranks) == 0 {
		return Communicator{w}
	}
	g, err := w.Group().Include(ranks...)
	must(w, err)
	c, err := w.Create(g)
	must(w, err)
	return Communicator{c}
}

// Rank returns the number of the calling rank. (MPI-4.1, chapter 7.4.1)
func (o Communicator) Rank() (rank int) { return o.comm.Rank() }

// Size returns the number of ranks. (MPI-4.1, chapter 7.4.1)
func (o Communicator) Size() (size int) { return o.comm.Size() }

// Abort ends all ranks of the job. gorun exits with the status errcode, 1 to 255; other numbers count as 1. (MPI-4.1,
// chapter 11.4.2)
func (o Communicator) Abort(errcode int) { gorun.Abort(o.comm, errcode) }

// Barrier waits until all ranks have called it. (MPI-4.1, chapter 6.3)
func (o Communicator) Barrier() { must(o.comm, gorun.Barrier(o.comm)) }

// tagUB is the key of MPI_TAG_UB in Open MPI.
const tagUB = 0

// GetAttr returns the value of an attribute, and whether there is one. The only one here is MPI_TAG_UB, which has the
// key 0 in Open MPI. (MPI-4.1, chapter 7.7.2)
func (o Communicator) GetAttr(attribute int) (int, bool, error) {
	if o.comm == nil {
		return 0, false, errors.New("mpi: GetAttr: this rank is not in the communicator")
	}
	if attribute != tagUB {
		return 0, false, nil
	}
	return gorun.MaxTag, true, nil
}

// GetMaxTag returns the largest tag. (MPI-4.1, chapter 9.1.2)
func (o Communicator) GetMaxTag() (int, error) {
	n, found, err := o.GetAttr(tagUB)
	if err != nil || !found {
		return -1, err
	}
	return n, nil
}
