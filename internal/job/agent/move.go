package agent

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// Ranks may move to other agents while others stay here. The next incarnation then comes as another
// order, which names the ranks that stay. Each of them is told by a Start. The process of a rank
// that has moved stands as it was captured. It takes no part in the job until it is ended, or until
// a later order names it again: then it is let go, and goes on.

// lineUp takes an order that is not the first.
func (a *agent) lineUp(next *wire.Order) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for rank, start := range next.Start {
		start.Nodes = next.Nodes
		next.Start[rank] = start
	}
	a.order.Ranks, a.order.Start, a.order.Nodes = next.Ranks, next.Start, next.Nodes
	a.sums = ckpt.NewDestSum(len(next.Ranks))
	a.watches(next.MigrateOn)
	for rank, r := range a.ranks {
		if r.away = !slices.Contains(next.Ranks, int(rank)); r.away {
			continue
		}
		start := next.Start[r.rank]
		start.Host = a.order.Host
		a.lookups.begins(start.Incarnation)
		r.lives = append(r.lives, start.Incarnation)
		r.down.Send(oob.Msg{Kind: oob.Start, From: oob.Head, To: rank, Incarnation: start.Incarnation, Data: wire.JSON(start)})
		r.imaging.giveUp() // it stood captured, and is to go on
	}
}

// startOf is what a rank is told of its present incarnation.
func (a *agent) startOf(rank int) oob.StartConfig {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.order.Start[rank]
}

// endMoved ends the process of a rank that has moved. It is killed before it is let go: it must take no step more.
func (a *agent) endMoved(rank int32) {
	a.mu.Lock()
	r := a.ranks[rank]
	a.mu.Unlock()
	if r == nil || !r.away {
		return
	}
	r.kill(syscall.SIGKILL)
	r.imaging.giveUp()
}

// lived reports whether the rank's process has had an incarnation here. Frames that name another
// incarnation were on their way when it was imaged.
func (a *agent) lived(r *rankProc, incarnation uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(r.lives, incarnation)
}

// awaitRunning keeps the output of a rank's new process back until all are up. It computes before that, and if the move
// is reverted the old process does and writes all that again.
func (a *agent) awaitRunning(r *rankProc) {
	if !r.restored || !a.startOf(r.rank).Moves {
		return
	}
	select {
	case <-a.running:
	case <-a.quit:
	}
}

// output is one output stream of a rank, as it is read.
type output struct {
	f       *os.File
	drain   chan chan struct{} // asks for all that is in the pipe to be passed on; closed when it is
	pending chan struct{}      // a pending request of drain; nil: none
	over    chan struct{}      // closed when it has been read to its end

	mu    sync.Mutex // held to read
	count int64      // bytes that were read
}

// read reads, and counts.
func (o *output) read(p []byte) (n int, err error) {
	raw, err := o.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	rerr := raw.Read(func(fd uintptr) bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		for {
			if n, err = unix.Read(int(fd), p); err != unix.EINTR {
				break
			}
		}
		o.count += int64(max(n, 0))
		return err != unix.EAGAIN
	})
	switch {
	case rerr != nil:
		return 0, rerr
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return max(n, 0), err
}

// written is how much the rank has written, including bytes that are not read yet.
func (o *output) written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	left := 0
	if raw, err := o.f.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return o.count + int64(left)
}

// printed is what a rank that stands has written to its streams in this life; nil: they are not open yet.
func (r *rankProc) printed() []int64 {
	if r.outputs[1] == nil || r.outputs[2] == nil {
		return nil
	}
	return []int64{r.outputs[1].written(), r.outputs[2].written()}
}

func newOutput(f *os.File) *output {
	return &output{f: f, drain: make(chan chan struct{}, 1), over: make(chan struct{})}
}

// asked reports whether a goroutine waits until the pipe is empty.
func (o *output) asked() bool {
	if o.pending == nil {
		select {
		case o.pending = <-o.drain:
		default:
		}
	}
	return o.pending != nil
}

// empty reports whether nothing is in the pipe.
func (o *output) empty() bool {
	left := 0
	if raw, err := o.f.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return left == 0
}

// answer tells the waiting goroutine that the pipe was empty, and that all has been passed on.
func (o *output) answer() {
	if o.pending != nil {
		close(o.pending)
		o.pending = nil
	}
}

// passOn returns when all output of a stopped rank so far is on its way to the head, including half
// a line. Output of another process of the rank comes after it.
func (r *rankProc) passOn(cancel <-chan struct{}) error {
	for _, o := range r.outputs {
		if o == nil {
			continue
		}
		done := make(chan struct{})
		select {
		case o.drain <- done:
		case <-o.over: // perhaps with an earlier request that was not taken
			continue
		case <-cancel:
			return errGivenUp
		}
		o.f.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
		select {
		case <-done:
		case <-o.over:
		case <-cancel:
			return errGivenUp
		}
	}
	return nil
}

var errGivenUp = errors.New("it was given up")
