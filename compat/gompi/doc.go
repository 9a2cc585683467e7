// Package mpi has the interface of github.com/sbromberger/gompi, tag v0.2.0, on top of gorun. A program written for
// that package runs as it is, without a C MPI and without cgo, and can be checkpointed and restarted.
//
// # How
//
// With a copy of gorun beside the program, a workspace of the two modules is all. The program stays as it is, and so
// does its go.mod:
//
//	go work init . ../gorun/compat/gompi
//	go build -o solver .
//	gorun -np 4 -cr ./solver
//
// This module is called github.com/sbromberger/gompi, so replacing that one in the program's go.mod does the same. gorun
// itself, which comes from the copy as well, needs a line, too. Then go mod tidy.
//
//	replace github.com/sbromberger/gompi => ../gorun/compat/gompi
//	replace github.com/gorun-mpi/gorun => ../gorun
//
// Images are of whole processes (-cr, or -cr=native): the program needs no Points. One that registers state and
// calls cr.Point, which it may, has portable images as well.
//
// # What differs
//
//   - BcastBytes moves as many bytes as the slice has. The original takes them for words of four bytes, and reads and
//     writes beyond the end.
//   - Empty slices are messages of no elements. The original panics.
//   - The Recv calls that allocate take the message that they have found. In the original another goroutine can take
//     it between the probe and the receive.
//   - GetMaxTag and GetAttr return the value. The original returns its address.
//   - Mprobe's message is of type Message. The original has a type of C there, which no program can name.
//   - Types of elements must be those of the sender, as MPI demands (chapter 3.3.1 of MPI-4.1). The original leaves
//     that unchecked.
//   - A rank that is in none of the ranks of a NewCommunicator has the Rank gorun/mpi.Undefined there and the Size 0.
//
// # Errors
//
// As in MPI with MPI_ERRORS_ARE_FATAL, what the original runs with, a call that fails prints why on standard error and
// ends the whole job (MPI-4.1, chapter 9.3). Only the reductions return an error: where the operation has no meaning
// for the type. It is the same on all ranks, and nothing has been sent then. A rank that fails because another one has died only follows: gorun
// -restarts goes on from the newest snapshot.
//
// Any number of goroutines may be in calls at once, whatever Start was told.
package mpi
