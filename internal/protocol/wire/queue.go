package wire

import (
	"sync"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Queue sends frames on a stream from a goroutine of its own. So a caller never waits for a slow or
// stopped reader. It has no bound: the protocol (a few frames a rank) or the windows of output and
// input bound what goes through it.
type Queue struct {
	conn *oob.Conn

	mu      sync.Mutex
	cond    *sync.Cond
	waiting []oob.Msg
	closed  bool
	writing bool     // a batch is on its way
	held    bool     // no other batch may begin
	idle    []func() // called when nothing is left to send
	stopped []func() // called when no batch is on its way
	Done    chan struct{}
}

// NewQueue begins to send on a stream.
func NewQueue(c *oob.Conn) *Queue {
	q := &Queue{conn: c, Done: make(chan struct{})}
	q.cond = sync.NewCond(&q.mu)
	go q.run()
	return q
}

// Send hands frames over. After close they are dropped.
func (q *Queue) Send(ms ...oob.Msg) {
	q.mu.Lock()
	if !q.closed {
		q.waiting = append(q.waiting, ms...)
		q.cond.Signal()
	}
	q.mu.Unlock()
}

// Close lets all frames handed over leave. done is closed after that, or when the stream broke.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.cond.Signal()
	q.mu.Unlock()
}

// Hold stops the stream between two frames: nothing is sent until Release is called. The channel
// that it returns is closed when the last frame begun has left, or can no longer leave.
func (q *Queue) Hold() <-chan struct{} {
	c := make(chan struct{})
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = true
	if !q.writing {
		close(c)
	} else {
		q.stopped = append(q.stopped, func() { close(c) })
	}
	return c
}

// Release lets the stream go on after Hold.
func (q *Queue) Release() {
	q.mu.Lock()
	q.held = false
	q.cond.Signal()
	q.mu.Unlock()
}

// Flushed returns a channel that is closed when everything handed over so far
// has left, or cannot any more.
func (q *Queue) Flushed() <-chan struct{} {
	c := make(chan struct{})
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 && !q.writing {
		close(c)
	} else {
		q.idle = append(q.idle, func() { close(c) })
	}
	return c
}

func (q *Queue) run() {
	defer close(q.Done)
	for {
		q.mu.Lock()
		q.writing = false
		call(&q.stopped)
		if len(q.waiting) == 0 {
			call(&q.idle)
		}
		for len(q.waiting) == 0 && !q.closed || q.held {
			q.cond.Wait()
		}
		batch := q.waiting
		q.waiting = nil
		q.writing = len(batch) > 0
		q.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		if err := q.conn.Send(batch...); err != nil {
			// The remaining frames have no receiver. The reading side of the
			// stream sees the end and tells the owner.
			q.mu.Lock()
			q.closed, q.waiting, q.writing = true, nil, false
			call(&q.stopped)
			call(&q.idle)
			q.mu.Unlock()
			q.conn.Close()
			return
		}
	}
}

func call(fs *[]func()) {
	for _, f := range *fs {
		f()
	}
	*fs = nil
}
