package mirror

import (
	"context"
	"errors"
)

// Transport connects the ranks of a world. Package mpiworld has one over a communicator of mpi, package tcpworld one of its own for
// programs without mpi. Its methods may be called by any number of goroutines, but Join and Serve by one.
type Transport interface {
	// Serve names who takes the blocks that arrive. It comes before the first Join.
	Serve(Sink)
	// Join waits until this process has a rank in a life after the given one, and enters it. When it returns, no block of an
	// earlier life is being written any more. It returns ErrOver if the world has ended.
	Join(ctx context.Context, after uint32) (*Life, error)
	// Put sends a block to another rank of a life. It returns when head and body may be used again, which does not mean that they
	// have arrived. Blocks of one pair of ranks arrive in the order of their Puts.
	Put(ctx context.Context, life uint32, to int, head, body []byte) error
	// Leave says how this rank's part of a life has ended, and waits for the others: nil if all have ended well, an error
	// that wraps ErrFailed if there is to be another life, any other if the world has ended badly.
	Leave(ctx context.Context, life uint32, result error) error
	// Close gives the world up.
	Close() error
}

// Life is the time from one failure to the next: ranks that do not change.
type Life struct {
	Number uint32          // greater than those of earlier ones
	Rank   int             // of this process
	Ranks  []Place         // where the ranks are
	Ctx    context.Context // ends with the life; its cause wraps ErrFailed and names the ranks that were lost
}

// Place is where a rank is.
type Place struct {
	Node string // what is lost together: a machine
	Rack string // what machines may be lost together; "": not known
}

// Sink takes blocks. It returns where the body is to be written, as long as the body, and what is to be called then; with nil the
// block is read and dropped. A transport calls it for one block of a pair of ranks at a time. Neither waits.
type Sink func(life uint32, from int, head []byte, size int) (room []byte, arrived func())

// Errors, for errors.Is.
var (
	// ErrFailed says that ranks were lost. A function that was given to Run returns it, and is called again.
	ErrFailed = errors.New("the life of this world has ended")
	// ErrOver says that the world has ended, or has had no use for this spare.
	ErrOver = errors.New("the world is over")
	// ErrLost says that an epoch was committed of which too little is left. Restore returns it with epoch 0.
	ErrLost = errors.New("the committed epoch is lost")
	// ErrGaveUp says that an epoch was not completed, on any rank. The one before is intact, and the next may be started.
	ErrGaveUp = errors.New("the epoch was given up")
	// ErrMismatch says that ranks have opened a description differently, or that regions and the epoch do not fit.
	ErrMismatch = errors.New("it does not fit")
)
