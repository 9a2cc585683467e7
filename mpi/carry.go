package mpi

import (
	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// A blocking call carries its schedule out itself, in its own goroutine. The communicator keeps the schedules of the
// last calls: most programs make the same calls again and again.

// noted is a schedule that is kept for calls that are alike.
type noted struct {
	depends
	schedule.Schedule
}

// depends is what a schedule depends on, besides the communicator. It is few words, which are compared in each call.
type depends struct {
	call                    uint64 // kind, algorithm, inPlace, commutes, root
	segment, elements, size int
}

// keptSchedules is how many a communicator keeps. It is a power of two.
const keptSchedules = 16

// plan returns the schedule for a call with k elements. If it is not known, it is empty.
func (x *collective) plan(rule *coll.Rule, k int, inPlace bool) (s *schedule.Schedule, known bool) {
	all := x.c.coll.schedules
	if all == nil {
		all = new([keptSchedules]noted)
		x.c.coll.schedules = all
	}
	call := uint64(x.kind) | uint64(rule.Algorithm)<<8 | uint64(uint32(x.root))<<32
	if inPlace {
		call |= 1 << 16
	}
	if x.commutes {
		call |= 1 << 17
	}
	a := depends{call, rule.Segment, k, x.t.Size}
	n := &all[(uint32(k)*0x9e3779b1>>16+uint32(x.root)+uint32(x.kind)*5)%keptSchedules]
	if n.depends == a {
		return &n.Schedule, true
	}
	n.depends = a
	n.Reset()
	return &n.Schedule, false
}

// draft returns an empty schedule for a call that has lengths of its own.
func (x *collective) draft() *schedule.Schedule {
	s := &x.c.coll.draft
	s.Reset()
	return s
}

// carry carries a schedule out.
func (x *collective) carry(s *schedule.Schedule, in, out []byte) error {
	x.mem = [2][]byte{schedule.In: in, schedule.Out: out}
	x.rooms = x.rooms[:0]
	for _, k := range s.Rooms {
		x.rooms = append(x.rooms, room{elements: k})
	}
	var err error
	for i := range s.Rounds {
		r := &s.Rounds[i]
		if err = x.messages(r.Messages); err != nil {
			break
		}
		for j := range r.Steps {
			if t := &r.Steps[j]; t.Combine {
				x.by.join(x.at(&t.Dst), x.at(&t.Low), x.at(&t.High))
			} else {
				move(x.at(&t.Dst), x.at(&t.Low))
			}
		}
	}
	for i := range x.rooms {
		x.rooms[i].mem.giveBack()
		x.rooms[i].mem = nil
	}
	x.mem = [2][]byte{} // it belongs to the caller
	return err
}

// messages carries out those of one round.
func (x *collective) messages(all []schedule.Message) error {
	switch {
	case len(all) == 2 && all[0].Recv && !all[1].Recv:
		in, out := &all[0], &all[1]
		return x.exchange(out.Peer, x.at(&out.Span), in.Peer, x.at(&in.Span))
	case len(all) != 1:
	case all[0].Recv:
		return x.recv(all[0].Peer, x.at(&all[0].Span))
	default:
		return x.send(all[0].Peer, x.at(&all[0].Span))
	}
	for i := range all {
		if m := &all[i]; m.Recv {
			x.get(m.Peer, x.at(&m.Span))
		} else {
			x.put(m.Peer, x.at(&m.Span))
		}
	}
	return x.run()
}

// room is memory of a call. It is borrowed when it is first used.
type room struct {
	elements int
	mem      *scratch
}

// at returns the memory of a span.
func (x *collective) at(s *schedule.Span) []byte {
	size := x.t.Size
	lo, hi := s.Off*size, (s.Off+s.Len)*size
	if s.Mem < schedule.Tmp {
		return x.mem[s.Mem][lo:hi]
	}
	r := &x.rooms[s.Mem-schedule.Tmp]
	if r.mem == nil {
		r.mem = borrow(r.elements * size)
	}
	return r.mem.bytes(hi)[lo:]
}

// leader returns the rank that speaks for a node: the root for its own, else the first.
func (x *collective) leader(node int) int {
	s := x.c.coll.nodes
	if x.kind.rooted() && node == s.of[x.root] {
		return x.root
	}
	return s.ranks[node][0]
}
