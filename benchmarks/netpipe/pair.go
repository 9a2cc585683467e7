package main

import (
	"slices"

	"github.com/gorun-mpi/gorun/mpi"
)

const (
	tagData = 1 + iota
	tagCount
	tagReady
	tagDone
)

// cacheLine in bytes; one word of each is rewritten with -dirty.
const cacheLine = 64

// pair is one of the two ranks, with its buffers.
type pair struct {
	c        *mpi.Comm
	rank     int
	peer     int
	dirty    bool
	out, in  []byte
	requests []mpi.Request
	none     []byte
	round    byte

	columnsOf   int // the size for which these were made
	first, last mpi.View[float64]
}

func newPair(c *mpi.Comm, sizes []int, dirty bool) *pair {
	largest := slices.Max(sizes)
	p := &pair{c: c, rank: c.Rank(), peer: 1 - c.Rank(), dirty: dirty}
	p.out, p.in = make([]byte, largest), make([]byte, largest)
	for i := range p.out { // pages that were never written would all be the same one
		p.out[i], p.in[i] = byte(i), 1
	}
	p.requests = make([]mpi.Request, 0, 2*windowSize)
	return p
}

// send sends size bytes.
func (p *pair) send(size int) error {
	p.soil(size)
	return mpi.Send(p.c, p.out[:size], p.peer, tagData)
}

func (p *pair) recv(size int) error {
	_, err := mpi.Recv(p.c, p.in[:size], p.peer, tagData)
	return err
}

// soil rewrites what a program would have computed anew since the last send.
func (p *pair) soil(size int) {
	if !p.dirty {
		return
	}
	p.round++
	for i := 0; i < size; i += cacheLine {
		p.out[i] = p.round
	}
}

// pattern is a way of sending messages of one size n times. It runs on both
// ranks at once; the messages of one call have all arrived when rank 0 returns.
type pattern struct {
	name string
	run  func(p *pair, size, n int) error
	legs int // messages one after another in each of the n
	ways int // directions that carry data at the same time
}

// windowSize is the number of messages under way at once in window.
const windowSize = 64

var (
	pingpong = pattern{"pingpong", runPingPong, 2, 1}
	stream   = pattern{"stream", runStream, 1, 1}
	bidir    = pattern{"bidir", runBidir, 1, 2}
	window   = pattern{"window", runWindow, 1, 1}
	column   = pattern{"column", runColumn, 2, 1}
	patterns = map[string]pattern{"pingpong": pingpong, "stream": stream, "bidir": bidir, "window": window, "column": column}
)

func runPingPong(p *pair, size, n int) error {
	for range n {
		if p.rank == 0 {
			if err := p.send(size); err != nil {
				return err
			}
			if err := p.recv(size); err != nil {
				return err
			}
			continue
		}
		if err := p.recv(size); err != nil {
			return err
		}
		if err := p.send(size); err != nil {
			return err
		}
	}
	return nil
}

func runStream(p *pair, size, n int) error {
	for range n {
		var err error
		if p.rank == 0 {
			err = p.send(size)
		} else {
			err = p.recv(size)
		}
		if err != nil {
			return err
		}
	}
	return p.arrived()
}

func runBidir(p *pair, size, n int) error {
	for range n {
		r, err := mpi.Irecv(p.c, p.in[:size], p.peer, tagData)
		if err != nil {
			return err
		}
		if err := p.send(size); err != nil {
			return err
		}
		if _, err := r.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// runWindow keeps up to 64 messages under way, in one direction.
func runWindow(p *pair, size, n int) error {
	for n > 0 {
		p.requests = p.requests[:0]
		for range min(n, windowSize) {
			var r mpi.Request
			var err error
			if p.rank == 0 {
				r, err = mpi.Isend(p.c, p.out[:size], p.peer, tagData)
			} else {
				r, err = mpi.Irecv(p.c, p.in[:size], p.peer, tagData)
			}
			if err != nil {
				return err
			}
			p.requests = append(p.requests, r)
		}
		n -= len(p.requests)
		if err := mpi.WaitallInto(p.requests, nil); err != nil {
			return err
		}
	}
	return p.arrived()
}

// arrived ends a pattern of one direction: rank 0 learns that all is there.
func (p *pair) arrived() error {
	if p.rank == 0 {
		_, err := mpi.Recv(p.c, p.none, p.peer, tagDone)
		return err
	}
	return mpi.Send(p.c, p.none, p.peer, tagDone)
}
