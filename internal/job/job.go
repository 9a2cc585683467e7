// Package job is a rank's share of a job: its engine, its channel to the head,
// and the goroutine that carries out the checkpoint protocol beside the
// program. All state of a rank hangs off one Job; several live in one process
// when ranks are goroutines of a test.
//
//	program's goroutines            checkpoint goroutine (driver)
//	  mpi calls -> Engine  <-- gate, flush, drain --  ckpt.Rank <-> head
//	  cr.Point  -> points  <-- arm, run to T, release --  |
//	                           capture, write behind -> Backend
package job

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/rpi"
)

// Link is the rank's end of the out-of-band channel: *oob.Conn, or a channel
// in memory.
type Link interface {
	Send(...oob.Msg) error
	Recv() (oob.Msg, error)
}

// Config describes a rank whose transports are already open.
type Config struct {
	Start  oob.StartConfig
	Engine *rpi.Engine
	// Modules are the engine's, which closes them. Without them the rank cannot
	// go on from an image of its whole process.
	Modules []rpi.Module
	Waiter  rpi.Waiter   // the engine's
	Close   func() error // releases the transports, and a link in memory, after Finalize; may be nil
	Link    Link         // nil: a job without a head; no checkpoints
	// Lost is called when the link breaks. The default ends the process: no
	// rank outlives its head.
	Lost func(error)
}

// Job is one rank's share of a job.
type Job struct {
	Rank, Size int
	Engine     *rpi.Engine
	// Image is the path of the portable image that the program began from, ""
	// if none. A process that was restored from a native image goes on with what
	// it had begun with.
	Image string

	start   atomic.Pointer[oob.StartConfig] // of the present incarnation
	began   oob.StartConfig                 // of the first that this process has lived in
	nodes   []int                           // of that, see Nodes
	link    Link
	close   func() error
	lost    func(error)
	driver  *driver
	points  points
	ctxs    contexts
	backend struct {
		sync.Mutex
		b Backend
	}

	finalizing   atomic.Bool
	finalizeOnce sync.Once
	finalized    chan struct{} // closed on FinalizeGo
	ended        chan struct{} // closed when Finalize begins to release everything
}

// ErrNoHead is returned by what needs a launcher in a job that has none.
var ErrNoHead = errors.New("this program was not started with gorun")

// New makes the job of one rank and, if there is a link, starts its checkpoint
// goroutine.
func New(c Config) *Job {
	j := &Job{
		Rank: c.Start.Rank, Size: c.Start.Size, Engine: c.Engine, Image: string(c.Start.Image),
		link: c.Link, close: c.Close, lost: c.Lost,
		finalized: make(chan struct{}), ended: make(chan struct{}),
	}
	j.start.Store(&c.Start)
	j.began, j.nodes = c.Start, nodesOf(&c.Start)
	j.points.init()
	if j.lost == nil {
		j.lost = func(error) { os.Exit(1) }
	}
	if j.link != nil {
		j.driver = newDriver(j, &c)
		go j.driver.read()
		go j.driver.run()
	}
	return j
}

// newMachine returns the protocol machine of a rank of an incarnation.
func newMachine(s oob.StartConfig) *ckpt.Rank {
	return ckpt.NewRank(s.Rank, s.Size, s.Incarnation, ckpt.Sparse(s.Size, s.SparseFrom))
}

// ID is the uuid of the job, "" without a launcher.
func (j *Job) ID() string { return j.start.Load().Job }

// Incarnation is the present one: it changes, at any moment, in a process that
// is restored from an image.
func (j *Job) Incarnation() uint64 { return j.start.Load().Incarnation }

// Restarted reports whether the program began from a portable image, and is to
// take up what that holds.
func (j *Job) Restarted() bool { return j.Image != "" }

// Finalize waits until all ranks have called it and no checkpoint is running,
// then releases the transports (MPI-4.1 chapter 11.2.2). The head opens it:
// a rank that is gone could not be imaged with the others.
func (j *Job) Finalize() error {
	if j.finalizing.Swap(true) {
		return errors.New("Finalize was called twice")
	}
	if j.link != nil {
		if err := j.send(oob.Msg{Kind: oob.FinalizeWant}); err != nil {
			return fmt.Errorf("rank %d: Finalize: the launcher is gone: %w", j.Rank, err)
		}
		<-j.finalized
	}
	close(j.ended)
	if j.driver != nil {
		j.driver.setWaiter(nil)
	}
	err := j.Engine.Close()
	if j.close != nil {
		err = errors.Join(err, j.close())
	}
	// The link stays: the process may go on computing, and must learn of the
	// launcher's end.
	return err
}

// Abort tells the head to end the whole job with the exit status code, and
// returns; the caller leaves the process. Secondary marks an error that only
// follows from another rank's death, so that it does not hide the first cause.
func (j *Job) Abort(code int, text string, secondary bool) error {
	if j.link == nil {
		return ErrNoHead
	}
	m := oob.Msg{Kind: oob.AbortJob, A: uint64(code), Data: []byte(text)}
	if secondary {
		m.B = 1
	}
	return j.send(m)
}

// Fail makes every call of this rank, now and later, return err.
func (j *Job) Fail(err error) {
	j.Engine.Abort(err)
	j.points.fail(err)
}

func (j *Job) send(m oob.Msg) error {
	m.From, m.To, m.Incarnation = int32(j.Rank), oob.Head, j.Incarnation()
	return j.link.Send(m)
}
