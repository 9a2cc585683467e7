package mpi

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// Topology is a communicator with neighbours: a *Cart or a *Graph. In a neighbourhood collective each rank exchanges
// messages with its neighbours alone. All ranks of the topology call it, in the order of its other collectives. Blocks of
// neighbours that do not exist (ProcNull) are left as they are. (MPI-4.1, chapter 8.6)
type Topology interface{ around() *neighbourhood }

// neighbourhood is the neighbours of one rank.
type neighbourhood struct {
	c       *Comm
	sources []int
	dests   []int
	order   []int // in which messages are sent, so that those to one rank meet its receives; nil: that of dests
}

func (t *Cart) around() *neighbourhood {
	if t.nothing() {
		return new(neighbourhood)
	}
	return &t.hood
}

func (g *Graph) around() *neighbourhood {
	if g.nothing() {
		return new(neighbourhood)
	}
	return &g.hood
}

// of returns the neighbourhood of a topology, which may be nil.
func of(t Topology) *neighbourhood {
	if t == nil {
		return new(neighbourhood)
	}
	return t.around()
}

// swap is a neighbourhood collective with its arguments: a block for each destination and from each source.
type swap[T any] struct {
	h          *neighbourhood
	kind       kind
	send, recv []T
	sb, rb     blocks
	all        bool // all destinations get all of send
	wrong      error
}

func swapAllgather[T any](t Topology, send, recv []T) swap[T] {
	h := of(t)
	rb := equal(len(send), len(h.sources))
	return swap[T]{h: h, kind: kindNeighborAllgather, send: send, recv: recv, rb: rb, all: true, wrong: compare("recv", len(recv), rb.total)}
}

// tmp has room for a number for each neighbour, here and below.
func swapAllgatherv[T any](t Topology, send, recv []T, counts, displs, tmp []int) swap[T] {
	h := of(t)
	rb, err := explicit("recv", len(h.sources), len(recv), counts, displs, tmp)
	return swap[T]{h: h, kind: kindNeighborAllgatherv, send: send, recv: recv, rb: rb, all: true, wrong: err}
}

func swapAlltoall[T any](t Topology, send, recv []T) swap[T] {
	h := of(t)
	k := len(recv) / max(len(h.sources), 1)
	if n := len(h.dests); n > 0 {
		k = len(send) / n
	}
	sb, rb := equal(k, len(h.dests)), equal(k, len(h.sources))
	return swap[T]{h: h, kind: kindNeighborAlltoall, send: send, recv: recv, sb: sb, rb: rb,
		wrong: first(compare("send", len(send), sb.total), compare("recv", len(recv), rb.total))}
}

func swapAlltoallv[T any](t Topology, send []T, scounts, sdispls []int, recv []T, rcounts, rdispls, tmp []int) swap[T] {
	h := of(t)
	outs, ins := len(h.dests), len(h.sources)
	sb, serr := explicit("send", outs, len(send), scounts, sdispls, tmp[:outs])
	rb, rerr := explicit("recv", ins, len(recv), rcounts, rdispls, tmp[outs:])
	return swap[T]{h: h, kind: kindNeighborAlltoallv, send: send, recv: recv, sb: sb, rb: rb, wrong: first(serr, rerr)}
}

// size is the number of neighbours, each of both sides counted.
func (h *neighbourhood) size() int { return len(h.sources) + len(h.dests) }

// NeighborAllgather sends send to all destinations. Block i of recv is what the i-th source has sent: len(recv) is
// their number times len(send), which is the same on all neighbours. Errors: as Allgather. (MPI-4.1, chapter 8.6.1)
func NeighborAllgather[T any](t Topology, send, recv []T) error {
	s := swapAllgather(t, send, recv)
	return s.now()
}

// NeighborAllgatherv is NeighborAllgather of messages of different lengths. That of the i-th source has counts[i]
// elements and goes to recv[displs[i]:]. If displs is nil, they follow each other. Errors: as Allgather. (MPI-4.1,
// chapter 8.6.1)
func NeighborAllgatherv[T any](t Topology, send, recv []T, counts, displs []int) error {
	tmp, mem := borrowSlice[int](of(t).size())
	defer mem.giveBack()
	s := swapAllgatherv(t, send, recv, counts, displs, tmp)
	return s.now()
}

// NeighborAlltoall sends block j of send to the j-th destination. Block i of recv is what the i-th source has sent.
// All blocks have one length, the same on all neighbours. Errors: as Allgather. (MPI-4.1, chapter 8.6.2)
func NeighborAlltoall[T any](t Topology, send, recv []T) error {
	s := swapAlltoall(t, send, recv)
	return s.now()
}

// NeighborAlltoallv is NeighborAlltoall with blocks of any length. scounts[j] elements from send[sdispls[j]:] go to
// the j-th destination, and rcounts[i] elements of the i-th source go to recv[rdispls[i]:]. If displacements are nil,
// the blocks follow each other. Errors: as Allgather. (MPI-4.1, chapter 8.6.2)
func NeighborAlltoallv[T any](t Topology, send []T, scounts, sdispls []int, recv []T, rcounts, rdispls []int) error {
	tmp, mem := borrowSlice[int](of(t).size())
	defer mem.giveBack()
	s := swapAlltoallv(t, send, scounts, sdispls, recv, rcounts, rdispls, tmp)
	return s.now()
}

// NeighborAlltoallw is NeighborAlltoallv where each block has a layout of its own: the j-th destination gets the elements of
// send[j], and what the i-th source sends goes to those of recv[i]. The view of a neighbour that does not exist is not
// looked at. No element is sent and received, which is not checked. Errors: as Allgather, ErrLayout. (MPI-4.1, chapter 8.6.2)
func NeighborAlltoallw[T any](t Topology, send, recv []View[T]) error {
	out, in, s := swapAlltoallw(t, send, recv)
	defer out.mem.giveBack()
	defer in.mem.giveBack()
	out.pack()
	if err := s.now(); err != nil {
		return err
	}
	in.unpack()
	return nil
}

// swapAlltoallw returns rows for the blocks, and the exchange of them. What is wrong is told by the exchange.
func swapAlltoallw[T any](t Topology, send, recv []View[T]) (out, in *rows[T], s swap[T]) {
	h := of(t)
	var serr, rerr error
	out, serr = rowsOf("send", send, len(h.dests), h.dests, false)
	in, rerr = rowsOf("recv", recv, len(h.sources), h.sources, true)
	return out, in, swap[T]{h: h, kind: kindNeighborAlltoallw, send: out.row, recv: in.row, sb: out.blocks, rb: in.blocks, wrong: first(serr, rerr)}
}

// now does it.
func (s *swap[T]) now() error {
	t, err := elem[T]()
	sp, rp := bytesOf(s.send), bytesOf(s.recv)
	x, err := s.h.c.enter(s.kind, noRoot, t, -1, first(err, s.wrong, apart(sp, rp)))
	if err != nil {
		return err
	}
	if err = s.toItself(); err == nil {
		all := x.draft()
		s.schedule(all)
		err = x.carry(all, sp, rp)
	}
	return x.leave(err)
}

// fly takes the call's place for a form that goes on while the program computes.
func (s *swap[T]) fly(form kind) (*flight, error) {
	f, err := s.take(form)
	if err == nil {
		f.note(bytesOf(s.send), bytesOf(s.recv), s.schedule)
	}
	return f, err
}

func (s *swap[T]) take(form kind) (*flight, error) {
	t, err := elem[T]()
	if err = first(err, s.wrong, apart(bytesOf(s.send), bytesOf(s.recv))); err == nil {
		err = s.toItself()
	}
	return s.h.c.take(s.kind|form, noRoot, t, -1, noOp, err)
}

func (s *swap[T]) schedule(all *schedule.Schedule) {
	schedule.Neighbors(all, s.h.c.rank, s.h.sources, s.h.dests, s.h.order, s.out, s.rb.at)
}

// out is the block for the j-th destination.
func (s *swap[T]) out(j int) (lo, hi int) {
	if s.all {
		return 0, len(s.send)
	}
	return s.sb.at(j)
}

// toItself returns an error if the rank does not send itself what it receives from itself.
func (s *swap[T]) toItself() error {
	var few [4]int
	in := few[:0]
	for i, r := range s.h.sources {
		if r == s.h.c.Rank() {
			lo, hi := s.rb.at(i)
			in = append(in, hi-lo)
		}
	}
	for j := range s.h.dests {
		if s.h.order != nil {
			j = s.h.order[j]
		}
		if s.h.dests[j] != s.h.c.Rank() {
			continue
		}
		lo, hi := s.out(j)
		if len(in) == 0 || in[0] != hi-lo {
			return fmt.Errorf("%w: %d elements to itself are not what it receives", ErrMismatch, hi-lo)
		}
		in = in[1:]
	}
	return nil
}
