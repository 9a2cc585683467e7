package shm

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
	"pgregory.net/rapid"
)

// Ranks send frames of any size, read, flush, go to sleep and are left alone, in any order. Each
// frame arrives once, whole and in order. A peer that refused is said to be writable. What was
// held is given back. In the end pool and rings are as at the beginning, also where laps and
// counts of cells wrap around.
func TestModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(r, "ranks")
		w := newWorld(t, n)
		defer w.Close()
		shrink(w, rapid.IntRange(1, 5).Draw(r, "small"), rapid.IntRange(1, 4).Draw(r, "large"))
		if rapid.Bool().Draw(r, "old") {
			age(w, -uint32(rapid.IntRange(0, 5<<minShift).Draw(r, "cells left")))
		}
		m := newModel(w)
		for i, s := range w.S {
			n := 0
			s.Enough = func() bool { n++; return n%(i+2) == 0 }
			if i > 0 {
				s.Alike = func() int { n++; return n % 6 }
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"send": func(r *rapid.T) {
				from := rapid.IntRange(0, n-1).Draw(r, "from")
				to := (from + rapid.IntRange(1, n-1).Draw(r, "to")) % n
				size := rapid.OneOf(rapid.SampledFrom(sizes), rapid.IntRange(0, 100)).Draw(r, "size")
				m.send(r, from, to, size, rapid.Bool().Draw(r, "more"))
			},
			"alike": func(r *rapid.T) {
				from, size := rapid.IntRange(0, n-1).Draw(r, "from"), rapid.IntRange(2, inlineMax).Draw(r, "size")
				for range rapid.IntRange(1, 30).Draw(r, "count") {
					m.sendAlike(r, from, (from+1)%n, size, rapid.Bool().Draw(r, "more"))
				}
			},
			"half": func(r *rapid.T) {
				from := rapid.IntRange(0, n-1).Draw(r, "from")
				to := (from + rapid.IntRange(1, n-1).Draw(r, "to")) % n
				m.sendHalf(r, from, to, rapid.SampledFrom([]int{leastHalved + 1, 4001, mostLone - 1}).Draw(r, "size"))
			},
			"burst": func(r *rapid.T) {
				from := rapid.IntRange(0, n-1).Draw(r, "from")
				for range 1 << minShift {
					m.send(r, from, (from+1)%n, 8, true)
				}
			},
			"poll": func(r *rapid.T) { w.M[rapid.IntRange(0, n-1).Draw(r, "rank")].Poll() },
			"take": func(r *rapid.T) {
				to := rapid.IntRange(0, n-1).Draw(r, "rank")
				from := (to + rapid.IntRange(1, n-1).Draw(r, "from")) % n
				m.take(r, from, to, rapid.Bool().Draw(r, "alike"), rapid.SampledFrom(sizes).Draw(r, "room"))
			},
			"flush": func(r *rapid.T) { w.M[rapid.IntRange(0, n-1).Draw(r, "rank")].Flush() },
			"sleep": func(r *rapid.T) {
				i := rapid.IntRange(0, n-1).Draw(r, "rank")
				if w.M[i].Arm() {
					m.asleep[i] = true
				}
			},
			"": m.check,
		})
		m.finish()
	})
}

// model is what the ranks have done, as a user sees it.
type model struct {
	*world
	sent   [][]int // frames, by sender and receiver
	come   [][]int // the same, arrived
	full   [][]bool
	held   int // names of frames
	asleep []bool
}

func newModel(w *world) *model {
	m := &model{world: w, asleep: make([]bool, len(w.M))}
	for range w.M {
		m.sent, m.come = append(m.sent, make([]int, len(w.M))), append(m.come, make([]int, len(w.M)))
		m.full = append(m.full, make([]bool, len(w.M)))
	}
	return m
}

// shrink makes rings and pools small.
func shrink(w *world, small, large int) {
	for _, m := range w.M {
		m.geo = geometry{shift: minShift, small: small, large: large, first: mostFirst, other: mostOther}
		m.pool.init(m.mem, m.layout.pool, m.geo)
	}
}

// age lets so many cells of each ring have been used up already.
func age(w *world, cells uint32) {
	for from, a := range w.M {
		for to, b := range w.M {
			if from == to {
				continue
			}
			w.Connect(from, to)
			out, in := &a.peers[to].out, &b.peers[from].in
			clear(out.cells)
			out.tail, out.used = cells, cells
			in.head, in.told, *in.taken = cells, cells, cells
			for i := range b.spots {
				if s := &b.spots[i]; int(s.peer) == from {
					in.look(s)
				}
			}
		}
	}
}

func (m *model) send(r *rapid.T, from, to, size int, more bool) {
	k := m.sent[from][to]
	h := eager(k, size)
	if size > 4 && size&1 == 0 {
		h.Kind, h.Off = rpi.Data, uint64(k)
	}
	m.offer(r, from, to, h, pattern(k, size), more)
}

// sendHalf sends a message and lets the receiver look before its second half is there.
func (m *model) sendHalf(r *rapid.T, from, to, size int) {
	o := &m.M[from].peers[to].out
	tail := o.tail
	m.send(r, from, to, size, false)
	if o.busy || o.tail != tail+1 || o.cells[tail&o.mask].word>>formShift&7 != formLone {
		return // it took another way
	}
	whole := halve(m.M[from], to)
	for range rapid.IntRange(0, 3).Draw(r, "looks") {
		if rapid.Bool().Draw(r, "poll") {
			m.M[to].Poll()
		} else {
			m.take(r, from, to, false, size)
		}
		m.check(r)
		if m.come[from][to] == m.sent[from][to] {
			r.Fatalf("half a message of rank %d has arrived", from)
		}
	}
	whole()
}

// alike is the tag of messages whose number is in their first two bytes.
const alike = -1

func (m *model) sendAlike(r *rapid.T, from, to, size int, more bool) {
	k := m.sent[from][to]
	m.offer(r, from, to, eager(alike, size), numbered(k, size), more)
}

func numbered(k, size int) []byte {
	p := pattern(k, size)
	binary.NativeEndian.PutUint16(p, uint16(k))
	return p
}

func (m *model) offer(r *rapid.T, from, to int, h rpi.Header, p []byte, more bool) {
	m.held++
	switch moduletest.Offer(m.M[from], to, &h, p, rpi.Ref(m.held), more) {
	case rpi.Full:
		m.full[from][to] = true
	case rpi.Held:
		m.S[from].Returned[rpi.Ref(m.held)]--
		fallthrough
	case rpi.Taken:
		m.sent[from][to]++
		if !more {
			m.rouse(r, from, to)
		}
	}
}

// take receives the next message by the shortcut, if it is one that it takes.
func (m *model) take(r *rapid.T, from, to int, like bool, room int) {
	k := m.come[from][to]
	h, want := eager(k, 0), pattern
	if like {
		h, want = eager(alike, 0), numbered
	}
	buf := make([]byte, room)
	n := m.M[to].TakeShort(from, h.Ctx, h.Tag, h.Type, buf)
	switch {
	case n >= 0 && string(buf[:n]) != string(want(k, n)):
		r.Fatalf("message %d of rank %d, of %d bytes, is another", k, from, n)
	case n >= 0:
		m.come[from][to]++
	case n == shared.TakeNone && m.M[to].Poll():
		r.Fatal("nothing to take, and a poll moved")
	}
}

// rouse checks that a sleeper was woken if it was sent something at once.
func (m *model) rouse(r *rapid.T, from, to int) {
	if m.asleep[to] && *m.M[to].word&bellArmed != 0 {
		r.Fatalf("rank %d sleeps, and rank %d has sent", to, from)
	}
	m.asleep[to] = false
}

// check looks at what has arrived so far.
func (m *model) check(r *rapid.T) {
	for to, s := range m.S {
		for from, got := range s.Got {
			for _, f := range got {
				k := int(f.Tag)
				want := pattern(k, f.PayloadLen())
				switch {
				case k == alike:
					k = int(binary.NativeEndian.Uint16(f.Payload))
					want = numbered(k, f.PayloadLen())
				case f.Kind == rpi.Data:
					k = int(f.Off)
					want = pattern(k, f.PayloadLen())
				}
				if string(f.Payload) != string(want) || m.come[from][to] != k {
					r.Fatalf("frame %d of rank %d at %d, of %d bytes, is another", k, from, to, len(f.Payload))
				}
				m.come[from][to]++
			}
			s.Got[from] = nil
		}
		if len(s.Downs) != 0 {
			r.Fatal(s.Downs)
		}
	}
}

// finish reads everything and looks whether all is as it was.
func (m *model) finish() {
	m.Until("all delivered", func() bool {
		done := true
		for from := range m.M {
			for to := range m.M {
				m.check(nil)
				done = done && m.come[from][to] == m.sent[from][to]
			}
		}
		return done
	})
	for i, x := range m.M {
		x.Poll()
		if !x.Quiet() || len(x.starved)+len(x.busy)+len(x.dirty) != 0 {
			m.T.Fatalf("rank %d has something to do", i)
		}
		x.reclaim()
		if free := int(x.pool.free[0].n) + int(x.pool.free[1].n); free != x.geo.small+x.geo.large {
			m.T.Fatalf("rank %d: %d of %d chunks", i, free, x.geo.small+x.geo.large)
		}
		for ref, n := range m.S[i].Returned {
			if n != 0 {
				m.T.Fatalf("frame %d was given back %d times too often", ref, n)
			}
		}
		for to := range m.M {
			if m.full[i][to] && m.S[i].Room[to] == 0 {
				m.T.Fatalf("rank %d was never told that %d can be sent to again", i, to)
			}
		}
	}
}

// FuzzPeer lets a peer write what it likes into its ring, its door and its counters. The rank gets
// frames that obey the rules, or Down with the reason.
func FuzzPeer(f *testing.F) {
	var c [cellSize]byte
	put := func(form, n uint8, size uint32) []byte {
		binary.NativeEndian.PutUint64(c[:], word(seqOf(0), rpi.Data, form, n, 0))
		binary.NativeEndian.PutUint64(c[24:], 100)
		binary.NativeEndian.PutUint32(c[52:], uint32(layoutOf(2).pool))
		binary.NativeEndian.PutUint32(c[56:], size)
		return append([]byte(nil), c[:]...)
	}
	f.Add(put(formInline, 8, 0), uint64(0), uint32(0))
	f.Add(put(formInline, 41, 0), uint64(0), uint32(1))
	f.Add(put(formOpen, 8, 0), uint64(0), uint32(0))
	f.Add(put(formOpen, 1, 0), uint64(0), uint32(0))
	f.Add(append(put(formOpen, 0, 0), put(formWhole, 0, 60)...), uint64(0), uint32(0))
	pair := put(formPair, 96, 0)
	binary.NativeEndian.PutUint64(pair, word(seqOf(0), rpi.Eager, formPair, 96, 0))
	f.Add(append(pair, put(formRest, 0, 0)...), uint64(0), uint32(2))
	f.Add(bytes.Repeat(pair, 1<<minShift), uint64(0), uint32(0))
	f.Add(append(put(formWhole, 0, 60), pair...), uint64(0), uint32(0))
	f.Add(put(formPair, 97, 0), uint64(0), uint32(0))
	f.Add(append(put(formWhole, 0, 60), put(formMore, 0, 40)...), uint64(0), uint32(0))
	f.Add(append(put(formWhole, 0, 60), put(formMore, 0, 41)...), uint64(0), uint32(1<<31))
	f.Add(put(formWhole, 0, 1<<31), uint64(1<<63), uint32(1<<32-1))
	lone := func(form uint8, n uint32) []byte {
		cell := put(form, 0, 0)
		binary.NativeEndian.PutUint64(cell, word(seqOf(0), 1, form, 0, 0))
		binary.NativeEndian.PutUint32(cell[28:], n)
		binary.NativeEndian.PutUint32(cell[24:], uint32(layoutOf(2).pool))
		return cell
	}
	f.Add(lone(formLone, 8), uint64(0), uint32(0))
	f.Add(append(lone(formHalf, mostLone), lone(formLone, mostLone+1)...), uint64(0), uint32(0))
	f.Add(append(put(formWhole, 0, 60), lone(formHalf, 1)...), uint64(0), uint32(0))
	f.Add([]byte{}, uint64(doorOpen|5), uint32(0))
	f.Add([]byte{}, door(layoutOf(2).pool-cellSize<<minShift, minShift), uint32(0))
	f.Fuzz(func(t *testing.T, cells []byte, way uint64, taken uint32) {
		w := newWorld(t, 2)
		defer w.Close()
		shrink(w, 4, 4)
		a, b := w.M[0], w.M[1]
		w.S[0].Keep = func(h *rpi.Header) int { return h.PayloadLen() / 2 }
		h := eager(1, 8)
		a.Send(1, &h, make([]byte, 8), 0, false)
		b.openRing(0)
		at := b.layout.rings
		if way != 0 {
			b.peers[0].ctl.change(1, way)
			at = int(uint32(way)) * line
		}
		if at >= b.layout.rings && at < b.layout.size {
			copy(b.mem[at:], cells)
		}
		*b.ctl.taken(0) = taken
		for range 5 {
			a.Send(1, &h, make([]byte, 8), 0, false)
			a.Arm()
			a.TakeShort(1, h.Ctx, h.Tag, h.Type, make([]byte, 8))
			a.Poll()
			a.learn(1)
		}
		if len(w.S[0].Downs[1]) > 1 {
			t.Fatal("down more than once")
		}
	})
}
