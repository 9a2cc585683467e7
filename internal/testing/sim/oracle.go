package sim

import (
	"bytes"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// oracle knows of every message whether it was sent and received, and in which
// order. After a restart it is set back to the cut.
type oracle struct {
	w     *world
	order []uint64 // by event: when it was sent; 0: not yet
	got   []bool

	entered []int // by step: how many members have begun it
	clock   uint64
	sends   [][]int // by rank, in order of sending
	gets    [][]int
}

// match is a receive that is over: what it asked for and what it got.
type match struct {
	post  uint64 // when it was posted
	order uint64 // when its message was sent
	src   int    // as asked for
	tag   int32
	mtag  int32 // the message's
}

func newOracle(w *world) oracle {
	n := len(w.prog.events)
	return oracle{w: w, order: make([]uint64, n), got: make([]bool, n), entered: make([]int, len(w.prog.steps)), sends: make([][]int, w.np), gets: make([][]int, w.np)}
}

// of returns what the rank has sent and received, without its prologue's.
func (o *oracle) of(r int) (sends, gets []int) {
	return append([]int(nil), o.sends[r]...), append([]int(nil), o.gets[r]...)
}

// restore sets the oracle back to a cut; nil is the beginning.
func (o *oracle) restore(images []*image) {
	order := o.order
	*o = newOracle(o.w)
	o.clock = 1
	for _, img := range images {
		for _, id := range img.sends {
			o.order[id] = order[id] // of what is outstanding the order counts on
			o.clock = max(o.clock, order[id])
			o.sends[img.rank] = append(o.sends[img.rank], id)
		}
		for _, id := range img.gets {
			o.got[id] = true
			o.gets[img.rank] = append(o.gets[img.rank], id)
		}
	}
}

func (o *oracle) sent(e *event) {
	if o.order[e.id] != 0 {
		o.w.violate("rank %d sends event %d twice", e.src, e.id)
	}
	o.clock++
	o.order[e.id] = o.clock
	if e.sround >= 0 {
		o.sends[e.src] = append(o.sends[e.src], e.id)
	}
}

// received checks one message that the program got.
func (o *oracle) received(r *rank, e *event, c *call, st engine.Status, buf []byte) {
	w := o.w
	switch {
	case o.order[e.id] == 0:
		w.violate("rank %d receives event %d, which was not sent", r.id, e.id)
	case o.got[e.id]:
		w.violate("rank %d receives event %d twice", r.id, e.id)
	case e.dst != r.id || st.Source != e.src || int32(st.Tag) != e.tag || len(buf) != e.size:
		w.violate("rank %d receives event %d (rank %d to %d, tag %d, %d bytes) as from rank %d, tag %d, %d bytes",
			r.id, e.id, e.src, e.dst, e.tag, e.size, st.Source, st.Tag, len(buf))
	case e.sround >= 0 && e.rround != r.app.round:
		w.violate("rank %d receives event %d of round %d in round %d", r.id, e.id, e.rround, r.app.round)
	}
	want := make([]byte, e.size)
	content(want, e.id, w.prog.salt(e))
	if !bytes.Equal(want, buf) {
		w.violate("rank %d receives event %d with wrong bytes", r.id, e.id)
	}
	o.got[e.id] = true
	w.arrived++
	if e.sround >= 0 {
		o.gets[r.id] = append(o.gets[r.id], e.id)
	}
	o.overtaking(r, e, c)
}

// overtaking checks MPI's order: of two receives of one rank the earlier gets
// the earlier message of a source and context, if it wants it at all.
func (o *oracle) overtaking(r *rank, e *event, c *call) {
	asked := o.w.prog.events[c.op.ev]
	m := match{post: c.post, order: o.order[e.id], src: c.op.src, tag: c.op.tag, mtag: e.tag}
	key := uint64(e.src)<<48 ^ asked.ctx
	for _, x := range r.app.history[key] {
		first, second := m, x
		if x.post < m.post {
			first, second = x, m
		}
		if first.order > second.order && (first.tag == wild || first.tag == second.mtag) {
			o.w.violate("rank %d: event %d has overtaken, or was overtaken by, an earlier message of rank %d", r.id, e.id, e.src)
		}
	}
	r.app.history[key] = append(r.app.history[key], m)
}
