// Package jobtest runs whole jobs inside one process: ranks over the in-memory
// transport and a head, the shipped protocol machine, over links in memory. It
// is for tests of what is built on a job; commits go to a folder of images
// without a schema.
package jobtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/job"
	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// Options of a Cluster.
type Options struct {
	Dir        string   // where snapshots go, one folder each
	Images     []string // by rank: restart from these
	SparseFrom int
	Phase      time.Duration // deadline of a phase; 0: the default
	OnSend     func(oob.Msg) // told of what the head sends to ranks; must not block
}

// Cluster is a running job.
type Cluster struct {
	Jobs []*job.Job

	opt  Options
	mu   sync.Mutex // guards all below
	head *ckpt.Head
	up   []*pipe // to the ranks
	next uint64
	seq  int
	wait map[uint64]chan ckpt.Done
	due  []ckpt.HeadEvent
}

// New starts a job of n ranks.
func New(n int, opt Options) *Cluster {
	const incarnation = 7
	c := &Cluster{opt: opt, wait: map[uint64]chan ckpt.Done{}}
	c.head = ckpt.NewHead(ckpt.HeadConfig{Size: n, Incarnation: incarnation, SparseFrom: opt.SparseFrom,
		PhaseMillis: opt.Phase.Milliseconds(), AskMillis: 200})
	fabric := mem.NewFabric(n)
	waiters, modules, engines, addrs := make([]rpi.Waiter, n), make([]rpi.Module, n), make([]*rpi.Engine, n), make([][]byte, n)
	for rank := range n {
		waiters[rank], modules[rank] = fabric.Waiter(rank), fabric.Module(rank)
		engines[rank] = rpi.New(rpi.Config{Rank: rank, Size: n, Modules: modules[rank : rank+1], Waiter: waiters[rank]})
		var err error
		env := rpi.Env{Rank: rank, Size: n, Incarnation: incarnation, Sink: engines[rank].Sink(0)}
		if addrs[rank], err = modules[rank].Start(env); err != nil {
			panic(err)
		}
	}
	for rank := range n {
		if err := modules[rank].Peers(addrs); err != nil {
			panic(err)
		}
		engines[rank].Start()
		start := oob.StartConfig{Job: "test", Incarnation: incarnation, Rank: rank, Size: n, CR: "self", SparseFrom: opt.SparseFrom}
		if opt.Images != nil {
			start.Image = opt.Images[rank]
		}
		down := newPipe()
		c.up = append(c.up, down)
		c.Jobs = append(c.Jobs, job.New(job.Config{Start: start, Engine: engines[rank], Waiter: waiters[rank], Close: modules[rank].Close,
			Link: &link{in: down, to: c}, Lost: func(error) {}}))
	}
	c.feed(ckpt.HeadEvent{Type: ckpt.HvAllUp})
	return c
}

// Checkpoint takes a snapshot and returns its images by rank.
func (c *Cluster) Checkpoint(stop bool) (images []string, err error) {
	done := make(chan ckpt.Done, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.wait[id] = done
	c.mu.Unlock()
	c.feed(ckpt.HeadEvent{Type: ckpt.HvRequest, Request: ckpt.Request{ID: id, Mode: oob.ModeSelf, Stop: stop}})
	d := <-done
	if d.Err != "" {
		return nil, errors.New(d.Err)
	}
	for rank := range c.Jobs {
		images = append(images, filepath.Join(c.folder(d.Seq), ckpt.ImageName(rank)))
	}
	return images, nil
}

// Stop ends all ranks, as a launcher would by killing them.
func (c *Cluster) Stop() {
	for i, j := range c.Jobs {
		j.Fail(rpi.ErrAborted)
		c.up[i].close()
	}
}

func (c *Cluster) folder(seq int) string { return filepath.Join(c.opt.Dir, fmt.Sprint(seq)) }

// feed steps the head, and then with the answers to its own actions.
func (c *Cluster) feed(ev ckpt.HeadEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = append(c.due, ev)
	for len(c.due) > 0 {
		ev := c.due[0]
		c.due = c.due[1:]
		for _, a := range c.head.Step(ev) {
			c.do(a)
		}
	}
}

func (c *Cluster) do(a ckpt.HeadAction) {
	switch a.Type {
	case ckpt.HactSend:
		if c.opt.OnSend != nil {
			c.opt.OnSend(a.Msg)
		}
		c.up[a.Msg.To].put(a.Msg)
	case ckpt.HactTimer:
		time.AfterFunc(time.Duration(a.Millis)*time.Millisecond, func() {
			c.feed(ckpt.HeadEvent{Type: ckpt.HvTimeout, Timer: a.Timer})
		})
	case ckpt.HactFolder:
		c.seq++
		ev := ckpt.HeadEvent{Type: ckpt.HvFolder, Folder: c.folder(c.seq), Seq: c.seq}
		if err := os.MkdirAll(ev.Folder, 0o700); err != nil {
			ev = ckpt.HeadEvent{Type: ckpt.HvFolderFailed, Err: err.Error()}
		}
		c.due = append(c.due, ev)
	case ckpt.HactCommit:
		c.due = append(c.due, ckpt.HeadEvent{Type: ckpt.HvCommitted, Seq: a.Seq})
	case ckpt.HactDone:
		c.wait[a.Done.ID] <- a.Done
		delete(c.wait, a.Done.ID)
	}
}

// pipe is one direction of a link: unbounded, in order.
type pipe struct {
	mu   sync.Mutex
	cond *sync.Cond
	q    []oob.Msg
	eof  bool
}

func newPipe() *pipe {
	p := &pipe{}
	p.cond = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) put(m oob.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.q = append(p.q, m)
	p.cond.Signal()
}

func (p *pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eof = true
	p.cond.Broadcast()
}

func (p *pipe) get() (oob.Msg, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.q) == 0 {
		if p.eof {
			return oob.Msg{}, io.EOF
		}
		p.cond.Wait()
	}
	m := p.q[0]
	p.q = p.q[1:]
	return m, nil
}

// link is a rank's end: what it sends is routed at once.
type link struct {
	in *pipe
	to *Cluster
}

func (l *link) Recv() (oob.Msg, error) { return l.in.get() }

func (l *link) Send(ms ...oob.Msg) error {
	for _, m := range ms {
		if m.To >= 0 {
			l.to.up[m.To].put(m)
			continue
		}
		l.to.feed(ckpt.HeadEvent{Type: ckpt.HvMsg, Msg: m})
	}
	return nil
}
