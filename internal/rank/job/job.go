// Package job is a rank's share of a job: its engine, its channel to the head, and the goroutine that carries
// out the checkpoint protocol beside the program. All state of a rank belongs to one Job. A process has several
// Jobs if ranks are goroutines of a test.
//
//	program's goroutines            checkpoint goroutine (driver)
//	  mpi calls -> Engine  <-- gate, flush, drain --  ckpt.Rank <-> head
//	  cr.Point  -> points  <-- arm, run to T, release --  |
//	                           capture, write behind -> Backend
package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
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
	Engine *engine.Engine
	// Modules belong to the engine, which closes them. Without them the rank cannot go on from a native image.
	Modules []rpi.Module
	Waiter  rpi.Waiter   // the engine's
	Names   *Names       // those that the engine was given; nil: it was given none
	Close   func() error // releases the transports, and a link in memory, after Finalize; may be nil
	Link    Link         // nil: a job without a head; no checkpoints
	// Lost is called when the link breaks. The default ends the process, because no rank outlives its head.
	Lost func(error)

	seat *seat // the engine's; nil: it has none
}

// Job is one rank's share of a job.
type Job struct {
	Rank, Size int
	Engine     *engine.Engine
	// Image is the path of the portable image that the program began from, or "". A process restored from a
	// native image keeps the value that it began with.
	Image string
	// ImageOf is not 0 if the program began from the images of another number of ranks, this one. Image is then a
	// library of all of them.
	ImageOf int

	start     atomic.Pointer[oob.StartConfig] // of the present incarnation
	began     oob.StartConfig                 // of the first incarnation of this process
	nodes     []int                           // of that, see Nodes
	origin    sync.Once                       // see Origin
	origins   []int
	originErr error
	link      Link
	close     func() error
	lost      func(error)
	driver    *driver
	seat      *seat
	points    points
	holds     holds
	health    health
	devices   *devices
	names     *Names
	backend   struct {
		sync.Mutex
		b Backend
	}

	misfit       atomic.Pointer[error] // see FailRestart
	looking      atomic.Bool           // a goroutine waits for the engine's answer to waits
	finalizing   atomic.Bool
	finalizeOnce sync.Once
	account      atomic.Uint64 // see Finalize
	total        uint64        // sum of all accounts, once finalized is closed
	finalized    chan struct{} // closed on FinalizeGo
	onRelease    func() error  // see OnRelease
	noted        chan struct{} // holds a token when the agent has noted the first Point
	ended        chan struct{} // closed when Finalize begins to release everything
}

// ErrNoHead is returned by calls that need a launcher in a job that has none.
var ErrNoHead = errors.New("this program was not started with gorun")

// New makes the job of one rank and, if there is a link, starts its checkpoint
// goroutine.
func New(c Config) *Job {
	j := &Job{
		Rank: c.Start.Rank, Size: c.Start.Size, Engine: c.Engine, Image: string(c.Start.Image), ImageOf: c.Start.Of,
		link: c.Link, close: c.Close, lost: c.Lost, seat: c.seat, names: cmp.Or(c.Names, new(Names)),
		finalized: make(chan struct{}), noted: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	j.start.Store(&c.Start)
	j.began, j.nodes = c.Start, nodesOf(&c.Start)
	j.devices = newDevices(j)
	j.points.init()
	j.points.setEvery(c.Start.Points, j.Restarted())
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

// Incarnation is the present one. It may change at any moment: the process is restored from an image, or other
// ranks move.
func (j *Job) Incarnation() uint64 { return j.start.Load().Incarnation }

// Restarted reports whether the program began from a portable image, whose content it must take.
func (j *Job) Restarted() bool { return j.Image != "" }

// Files is what this restart does with files that the program was writing to: a whole.FilesPolicy, "" is the default.
func (j *Job) Files() string { return j.start.Load().Files }

// Over reports whether the rank has ended, or can only end: it was finalized, or has failed.
func (j *Job) Over() bool { return closed(j.ended) || j.points.failed() }

// Tail tells the user of a file with what was cut off an output file.
func (j *Job) Tail(path string) error {
	if j.link == nil {
		return nil
	}
	return j.send(oob.Msg{Kind: oob.Tail, Data: []byte(path)})
}

// Finalize waits until all ranks have called it and no checkpoint is running. Then it releases the transports
// (MPI-4.1 chapter 11.2.2). The head says when, because a rank that is gone could not be imaged with the
// others. The accounts of all ranks should add up to 0. If they do not, settle is called on each rank before
// the transports are released.
func (j *Job) Finalize(account uint64, settle func() error) error {
	j.account.CompareAndSwap(0, account)
	if j.finalizing.Swap(true) {
		return errors.New("Finalize was called twice")
	}
	if err := j.fits(); err != nil {
		return err
	}
	if j.link != nil {
		if err := j.send(oob.Msg{Kind: oob.FinalizeWant, A: account}); err != nil {
			return fmt.Errorf("the launcher is gone: %w", err)
		}
		<-j.finalized
	}
	var unsettled error
	if j.total != 0 && settle != nil {
		unsettled = settle()
	}
	if j.onRelease != nil {
		unsettled = errors.Join(unsettled, j.onRelease())
	}
	close(j.ended)
	if j.driver != nil {
		j.driver.setWaiter(nil)
	}
	err := errors.Join(unsettled, j.Engine.Close())
	if j.close != nil {
		err = errors.Join(err, j.close())
	}
	// The link stays. The process may go on computing, and must learn of the launcher's end.
	return err
}

// OnRelease makes Finalize call f when all ranks have called it, before the transports are
// released.
func (j *Job) OnRelease(f func() error) { j.onRelease = f }

// Unreceived tells the user of messages that this rank has not received: how many, and the first of them.
func (j *Job) Unreceived(n int, first []string) error {
	if j.link == nil {
		fmt.Fprintln(os.Stderr, waitreport.Unreceived(n, first))
		return nil
	}
	data, err := json.Marshal(first)
	if err != nil {
		return err
	}
	return j.send(oob.Msg{Kind: oob.Seen, A: oob.LookUnreceived, B: uint64(n), Data: data})
}

// Ending says why a rank ends the whole job.
type Ending uint64

// The reasons. A restart follows if the program has not decided to end.
const (
	Decided  Ending = oob.AbortDecided // by an error or by Abort
	Follows  Ending = oob.AbortFollows // from another rank's death, which is the first cause
	Panicked Ending = oob.AbortPanic
	Lost     Ending = oob.AbortLost // of something that the rank needs
)

// Abort tells the head to end the whole job with the exit status code, and returns. The caller has printed the
// text, and leaves the process.
func (j *Job) Abort(code int, text string, why Ending) error {
	if j.link == nil {
		return ErrNoHead
	}
	return j.send(oob.Msg{Kind: oob.AbortJob, A: uint64(code), B: uint64(why), Data: []byte(text)})
}

// Fail makes every call of this rank, now and later, return err.
func (j *Job) Fail(err error) {
	j.Engine.Abort(err)
	j.points.fail(err)
}

// FailRestart ends a program that cannot go on from its portable image. Every later call and Finalize return
// err, even if the program ignores it. Its results would look right and be wrong. err does not name the rank:
// the calls of mpi do, and Point does.
func (j *Job) FailRestart(err error) {
	j.misfit.CompareAndSwap(nil, &err)
	j.Engine.Abort(err)
	j.points.fail(fmt.Errorf("rank %d: %w", j.Rank, err))
}

// Misfit is the first error given to FailRestart.
func (j *Job) Misfit() error {
	if err := j.misfit.Load(); err != nil {
		return *err
	}
	return nil
}

// fits returns an error if the results of a restarted program are not those of the imaged one. Either it has
// met an error, or it ends and has not taken all of its image.
func (j *Job) fits() error {
	if err := j.Misfit(); err != nil {
		return err
	}
	if !j.Restarted() || j.points.begun() {
		return nil
	}
	b := j.Backend()
	if b == nil {
		return fmt.Errorf("it was restarted from %s: %w", j.Image, ErrNoBackend)
	}
	return b.Claimed()
}

func (j *Job) send(m oob.Msg) error {
	m.From, m.To, m.Incarnation = int32(j.Rank), oob.Head, j.Incarnation()
	return j.link.Send(m)
}
