// Package mpi passes messages between the ranks of a parallel job. It follows the MPI standard, version 4.1, in
// Go's terms. The comments cite the standard by chapter.
//
// # A program
//
// gorun starts a program once per rank. A program started without gorun is a job of one rank.
//
//	func main() {
//		mpi.Run(func(c *mpi.Comm) error {
//			sum, err := mpi.AllreduceValue(c, float64(c.Rank()), mpi.Sum)
//			if err != nil {
//				return err
//			}
//			fmt.Println("rank", c.Rank(), "of", c.Size(), "sum", sum)
//			return nil
//		})
//	}
//
// # Buffers
//
// Messages are slices. Their elements may be of any type of fixed size: numbers, complex numbers, booleans, and
// arrays and structs of those without pointers. A call with any other type returns ErrType. The order of
// arguments is MPI's: what is sent, what is received, then the rank. Calls whose result replaces their input
// have names that end in InPlace.
//
// A buffer given to a blocking call belongs to the caller again when the call returns. What is given to a call that
// begins something, such as Isend, Irecv or Iallreduce, belongs to the library until the request has been waited for:
// what is received must not be touched, what is sent must not be written. That of a Persistent or Partitioned call
// belongs to it from Start until then. Counts, displacements and layouts are the caller's again at once. The library
// copies only where it must. In the steady state it allocates nothing.
//
// There are three levels, from fast to easy: slices (Send, Allreduce), single values (SendValue, AllreduceValue),
// and any Go value through a codec (SendObject, GatherObjects). Calls whose names end in Alloc find out how long
// the result is, and allocate it.
//
// # Errors
//
// Every call returns an error that names the call, the peer, the tag and the communicator. errors.Is tells its
// class (ErrTruncate, ErrRank, ...). There is no error handler. A program returns the error from the function
// given to Run, and the whole job ends with it.
//
// # Goroutines
//
// Any number of goroutines may be in calls at once (MPI_THREAD_MULTIPLE, chapter 11.6). Collective calls on one
// communicator are an ordered sequence, the same on all its ranks: a second one waits for the first. Goroutines
// that want collectives of their own take a Dup each.
//
// # Communicators
//
// A communicator's messages carry a 64-bit context. It is the hash of how the communicator was made: parent,
// number of the operation on the parent, colour. All ranks compute it alike without talking, and so does a
// restarted program. Where not all ranks of a parent make a communicator (CreateGroup, IntercommCreate), its number
// is how often these ranks have made one with that tag. The lowest bit separates point-to-point messages (0) from those of collectives (1).
package mpi
