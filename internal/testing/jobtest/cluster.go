// Package jobtest runs whole jobs inside one process, for tests of what is built on a job. Its ranks
// use the in-memory transport or others. Its head is the shipped machine of a job's life, over links
// in memory. Commits go to a folder of images without a schema. Images of whole processes are
// simulated: see Revive.
package jobtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/job"
	"github.com/gorun-mpi/gorun/internal/storage/imagepipe"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Options of a Cluster.
type Options struct {
	Dir        string   // where snapshots go, one folder each
	Images     []string // by rank: restart from these; not as many as ranks: from those of another number
	SparseFrom int
	RPI        []string // transports; nil: "mem". For others see transport.go
	Nodes      []int    // by rank; nil: one
	Params     map[string]string
	Crowded    bool          // the ranks are told that they share CPUs
	Phase      time.Duration // deadline of a phase; 0: the default
	Auto       time.Duration // how long an auto attempt waits for Points; 0: the default
	Asked      bool          // ranks ask for addresses when they first need them, as in large jobs
	Points     int           // a checkpoint is wanted at every so many Points; 0: at none
	Files      string        // what a restart does with files (whole.FilesPolicy)
	OnSend     func(oob.Msg) // told of what the head sends to ranks; must not block
}

// Cluster is a running job.
type Cluster struct {
	Jobs []*job.Job

	opt         Options
	secret      []byte
	mu          sync.Mutex // guards all below
	job         *joblife.Job
	incarnation uint64
	up          []*pipe // to the ranks
	next        uint64
	seq         int
	wait        map[uint64]chan ckpt.Done
	due         []event
	feeding     bool
	revival     *revival  // under way; nil: none
	lost        []error   // by rank: why it has ended itself
	stops       bool      // the snapshot under way is the last
	held        []oob.Msg // what would keep the ranks from going on after it; see Fail
	timers      []*time.Timer
	shelf       *imagepipe.Pipe // of the images of another number of ranks; nil: there are none
}

// New starts a job of n ranks.
func New(n int, opt Options) *Cluster {
	c := &Cluster{opt: opt, secret: fmt.Appendf(nil, "of cluster %d", clusters.Add(1)), wait: map[uint64]chan ckpt.Done{}, incarnation: 7, lost: make([]error, n), Jobs: make([]*job.Job, n)}
	if opt.RPI == nil {
		c.opt.RPI = []string{"mem"}
	}
	for range n {
		c.up = append(c.up, newPipe())
	}
	c.mu.Lock()
	c.launch()
	c.mu.Unlock()
	c.openShelf(n)
	var all sync.WaitGroup
	for rank := range n {
		start := c.start(rank, n)
		switch {
		case c.shelf != nil:
			start.Image, start.Of = rawstring.String(c.shelf.Path), len(opt.Images)
		case opt.Images != nil:
			start.Image = rawstring.String(opt.Images[rank])
		}
		all.Go(func() {
			j, err := job.Enter(&link{in: c.up[rank], to: c}, start, func(err error) { c.loses(rank, err) })
			if err != nil {
				panic(err)
			}
			c.Jobs[rank] = j
		})
	}
	all.Wait()
	return c
}

var clusters atomic.Int64

// openShelf does what agents do for ranks of which none has an image of its own.
func (c *Cluster) openShelf(n int) {
	images := c.opt.Images
	if images == nil || len(images) == n {
		return
	}
	shelf, err := imagepipe.Shelf(func(_ context.Context, rank, copy int) (string, store.Reader, error) {
		if copy > 0 {
			return "", nil, io.EOF
		}
		return images[rank], nil, nil
	})
	if err != nil {
		panic(err)
	}
	c.shelf = shelf
}

func (c *Cluster) start(rank, n int) oob.StartConfig {
	var nodes []oob.Node
	for _, number := range c.opt.Nodes {
		nodes = append(nodes, oob.Node{Number: number, Ranks: 1})
	}
	return oob.StartConfig{Job: "test", Incarnation: c.incarnation, Rank: rank, Size: n, CR: "auto", Holds: true, Secret: c.secret,
		RPI: c.opt.RPI, SparseFrom: c.opt.SparseFrom, Nodes: nodes, Params: c.opt.Params, Crowded: c.opt.Crowded, Files: c.opt.Files, Points: uint64(c.opt.Points)}
}

// Checkpoint takes a snapshot of portable images and returns these by rank.
func (c *Cluster) Checkpoint(stop bool) (images []string, err error) {
	return c.Images(c.Take(oob.ModeSelf, stop))
}

// Images are the files of a snapshot of portable images.
func (c *Cluster) Images(d ckpt.Done) (images []string, err error) {
	if d.Err != "" {
		return nil, errors.New(d.Err)
	}
	for rank := range c.Jobs {
		images = append(images, filepath.Join(c.folder(d.Seq), ckpt.ImageName(rank)))
	}
	return images, nil
}

// Take takes a snapshot in the mode given and returns what the head says of it.
func (c *Cluster) Take(mode uint64, stop bool) ckpt.Done { return <-c.Request(mode, stop) }

// Request asks for a snapshot. The channel gives what the head says of it.
func (c *Cluster) Request(mode uint64, stop bool) <-chan ckpt.Done {
	id, done := c.waiter()
	c.mu.Lock()
	c.stops = stop
	c.mu.Unlock()
	c.feed(joblife.Event{Type: joblife.EvRequest, Request: ckpt.Request{ID: id, Mode: mode, Stop: stop}})
	return done
}

// Settle waits for the end of the head's step. A head tells the ranks first that a snapshot is over, and then who asked for it.
func (c *Cluster) Settle() {
	c.mu.Lock()
	c.mu.Unlock()
}

func (c *Cluster) waiter() (id uint64, done chan ckpt.Done) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	c.wait[c.next] = make(chan ckpt.Done, 1)
	return c.next, c.wait[c.next]
}

// Lost returns why a rank has ended itself, nil if it has not.
func (c *Cluster) Lost(rank int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost[rank]
}

func (c *Cluster) loses(rank int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost[rank] = err
}

// Fail makes every call of every rank fail. A rank that stands still after its last snapshot, or waits in Finalize for
// others, goes on to that: a launcher kills such ranks, and these are goroutines.
func (c *Cluster) Fail(err error) {
	for _, j := range c.Jobs {
		j.Fail(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.held {
		m.Kind = oob.Open
		c.up[m.To].put(m)
	}
	c.held, c.stops = nil, false
	for rank, up := range c.up {
		up.put(oob.Msg{Kind: oob.FinalizeGo, From: oob.Head, To: int32(rank), Incarnation: c.incarnation})
	}
}

// Stop ends all ranks, as a launcher would by killing them.
func (c *Cluster) Stop() {
	c.Fail(engine.ErrAborted)
	if c.shelf != nil {
		c.shelf.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, up := range c.up {
		up.close()
	}
	for _, t := range c.timers {
		t.Stop()
	}
}

func (c *Cluster) folder(seq int) string { return filepath.Join(c.opt.Dir, fmt.Sprint(seq)) }

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
		switch {
		case m.To >= 0:
			l.to.up[m.To].put(m)
		default:
			l.to.hear(m)
		}
	}
	return nil
}
