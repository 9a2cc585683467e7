package main

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"unsafe"
)

// Collectives in which each process has a word for all, or one for each: it fills a
// cell with them that the others read.

// op is what comes of the words.
type op struct {
	none bool // there are none: all wait for all
	each bool // a process has one for each
	adds bool // they are added, else they come together
}

var wordOps = map[string]op{
	"barrier":        {none: true},
	"allreduce":      {adds: true},
	"allgather":      {},
	"alltoall":       {each: true},
	"reduce_scatter": {each: true, adds: true},
}

var wordWays = []struct {
	name  string
	start func(s *shared, o op) doing
}{{"each", startEach}, {"one", startOne}, {"first", startFirst}}

func init() {
	for name, o := range wordOps {
		for _, w := range wordWays {
			works[name+", "+w.name] = work{times: 1, start: func(s *shared) doing { return w.start(s, o) }}
		}
	}
}

// wordWorks are the names of all.
func wordWorks() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(wordOps)) {
		for _, w := range wordWays {
			all = append(all, name+", "+w.name)
		}
	}
	return all
}

// words is how many a process writes, and how many are the result for it.
func (o op) words(procs int) (out, in int) {
	switch out, in = 1, procs; {
	case o.none:
		return 0, 0
	case o.each:
		out = procs
	}
	if o.adds {
		in = 1
	}
	return out, in
}

// head of a cell. The words follow and, if this process puts the result together,
// that.
type head struct {
	filled uint64 // how often
	told   uint64 // the same, when the result is there
	place  uint64 // of the process that has it
}

const headWords = uint64(unsafe.Sizeof(head{})) / 8

// meeting is what a process has of such a collective.
type meeting struct {
	*shared
	op
	mine  int // which of the words are for this process
	room  int // bytes of a cell
	calls uint64
	guide int       // who has last told where the result is
	in    []float64 // the result for this process
}

func newMeeting(s *shared, o op, table bool) *meeting {
	out, in := o.words(s.Procs)
	c := &meeting{shared: s, op: o, in: make([]float64, in)}
	if o.each {
		c.mine = s.Rank
	}
	all := int(headWords) + out
	if table {
		all += out * in
	}
	c.room = (8*all + line - 1) / line * line
	return c
}

// cell is a process's. It has two, in turn: who has come to the next call needs
// nothing of this one any more.
func (c *meeting) cell(mem []byte, rank int) (h *head, words, table []float64) {
	p := c.buffer(mem, 2*rank+int(c.calls%2), c.room)
	f := asFloats(p)[headWords:]
	n, _ := c.words(c.Procs)
	return (*head)(unsafe.Pointer(unsafe.SliceData(p))), f[:n], f[n:]
}

// value is what a process has for another in this call.
func (c *meeting) value(rank, to int) float64 { return float64(1e6*c.calls) + value(rank, to) }

// post fills this process's cell for the next call.
func (c *meeting) post() {
	c.calls++
	h, words, _ := c.cell(c.mem, c.Rank)
	for i := range words {
		words[i] = c.value(c.Rank, i)
	}
	atomic.StoreUint64(&h.filled, c.calls)
}

// has reports whether a process has filled its cell.
func (c *meeting) has(rank int) bool {
	h, _, _ := c.cell(c.seen, rank)
	return atomic.LoadUint64(&h.filled) >= c.calls
}

// put puts a word of each process into in, for those who want the words number i.
func (c *meeting) put(in []float64, i int) {
	if c.none {
		return
	}
	in[0] = 0
	for rank := range c.Procs {
		_, words, _ := c.cell(c.seen, rank)
		if c.adds {
			in[0] += words[i]
		} else {
			in[rank] = words[i]
		}
	}
}

// pool puts together what all want, and tells.
func (c *meeting) pool() {
	_, words, table := c.cell(c.mem, c.Rank)
	for i := range words {
		c.put(table[i*len(c.in):], i)
	}
	c.take(c.Rank)
}

// take takes this process's part of what another has put together, and tells, too.
func (c *meeting) take(place int) {
	_, _, table := c.cell(c.seen, place)
	copy(c.in, table[c.mine*len(c.in):])
	h, _, _ := c.cell(c.mem, c.Rank)
	h.place = uint64(place)
	release(&h.told, c.calls)
}

// told returns where a process says that the result is.
func (c *meeting) told(rank int) (place int, ok bool) {
	h, _, _ := c.cell(c.seen, rank)
	if atomic.LoadUint64(&h.told) < c.calls {
		return 0, false
	}
	return int(h.place), true
}

// startEach: each process looks at the cells of all.
func startEach(s *shared, o op) doing {
	c := newMeeting(s, o, false)
	return doing{func() {
		c.post()
		for k := 1; k < c.Procs; k++ {
			h, _, _ := c.cell(c.seen, (c.Rank+k)%c.Procs)
			c.await(&h.filled, c.calls)
		}
		c.put(c.in, c.mine)
	}, c.check}
}

// startOne: the first process puts the result together, the others wait for it.
func startOne(s *shared, o op) doing {
	c := newMeeting(s, o, true)
	return doing{func() {
		c.post()
		if c.Rank > 0 {
			h, _, _ := c.cell(c.seen, 0)
			c.await(&h.told, c.calls)
			c.take(0)
			return
		}
		for rank := 1; rank < c.Procs; rank++ {
			h, _, _ := c.cell(c.seen, rank)
			c.await(&h.filled, c.calls)
		}
		c.pool()
	}, c.check}
}

// startFirst: whoever is the first to see the cells of all puts the result together,
// and where that is goes from one to the next.
func startFirst(s *shared, o op) doing {
	c := newMeeting(s, o, true)
	return doing{func() {
		c.post()
		next := 1
		for looks := 1; ; looks++ {
			if place, ok := c.hears(); ok {
				c.take(place)
				return
			}
			for next < c.Procs && c.has((c.Rank+next)%c.Procs) {
				next++
			}
			if next == c.Procs {
				c.pool()
				return
			}
			c.rest(looks)
		}
	}, c.check}
}

// near is how many processes are asked whether they know where the result is, the ones
// before this one, beside the one that has known last.
const near = 3

func (c *meeting) hears() (place int, ok bool) {
	if place, ok = c.told(c.guide); ok {
		return place, true
	}
	for k := 1; k <= min(near, c.Procs-1); k++ {
		rank := (c.Rank - k + c.Procs) % c.Procs
		if place, ok = c.told(rank); ok {
			c.guide = rank
			return place, true
		}
	}
	return 0, false
}

// check compares the result of the last call with what it should be.
func (c *meeting) check() error {
	for i, v := range c.in {
		want := c.value(i, c.mine)
		if c.adds {
			want = 0
			for rank := range c.Procs {
				want += c.value(rank, c.mine)
			}
		}
		if v != want {
			return fmt.Errorf("word %d is %g, not %g", i, v, want)
		}
	}
	return nil
}
