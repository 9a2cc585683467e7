package mpi

import "fmt"

// Neighbourhood collectives are collectives in which each rank exchanges messages with its neighbours alone. All
// ranks of the topology call them, in the order of its other collectives. Blocks of neighbours that do not exist
// (ProcNull) are left as they are.

// Topology is a communicator with neighbours: a *Cart or a *Graph. (MPI-4.1, chapter 8.6)
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

// NeighborAllgather sends send to all destinations. Block i of recv is what the i-th source has sent: len(recv) is
// their number times len(send), which is the same on all neighbours. Errors: as Allgather. (MPI-4.1, chapter 8.6.1)
func NeighborAllgather[T any](t Topology, send, recv []T) error {
	h := of(t)
	rb := equal(len(send), len(h.sources))
	return neighbors(h, kindNeighborAllgather, send, recv, nil, &rb, compare("recv", len(recv), rb.total))
}

// NeighborAllgatherv is NeighborAllgather of messages of different lengths. That of the i-th source has counts[i]
// elements and goes to recv[displs[i]:]. If displs is nil, they follow each other. Errors: as Allgather. (MPI-4.1,
// chapter 8.6.1)
func NeighborAllgatherv[T any](t Topology, send, recv []T, counts, displs []int) error {
	h := of(t)
	tmp, s := borrowSlice[int](len(h.sources))
	defer s.giveBack()
	rb, err := explicit("recv", len(h.sources), len(recv), counts, displs, tmp)
	return neighbors(h, kindNeighborAllgatherv, send, recv, nil, &rb, err)
}

// NeighborAlltoall sends block j of send to the j-th destination. Block i of recv is what the i-th source has sent.
// All blocks have one length, the same on all neighbours. Errors: as Allgather. (MPI-4.1, chapter 8.6.2)
func NeighborAlltoall[T any](t Topology, send, recv []T) error {
	h := of(t)
	k := len(recv) / max(len(h.sources), 1)
	if n := len(h.dests); n > 0 {
		k = len(send) / n
	}
	sb, rb := equal(k, len(h.dests)), equal(k, len(h.sources))
	return neighbors(h, kindNeighborAlltoall, send, recv, &sb, &rb, first(compare("send", len(send), sb.total), compare("recv", len(recv), rb.total)))
}

// NeighborAlltoallv is NeighborAlltoall with blocks of any length. scounts[j] elements from send[sdispls[j]:] go to
// the j-th destination, and rcounts[i] elements of the i-th source go to recv[rdispls[i]:]. If displacements are nil,
// the blocks follow each other. Errors: as Allgather. (MPI-4.1, chapter 8.6.2)
func NeighborAlltoallv[T any](t Topology, send []T, scounts, sdispls []int, recv []T, rcounts, rdispls []int) error {
	h := of(t)
	outs, ins := len(h.dests), len(h.sources)
	tmp, s := borrowSlice[int](outs + ins)
	defer s.giveBack()
	sb, serr := explicit("send", outs, len(send), scounts, sdispls, tmp[:outs])
	rb, rerr := explicit("recv", ins, len(recv), rcounts, rdispls, tmp[outs:])
	return neighbors(h, kindNeighborAlltoallv, send, recv, &sb, &rb, first(serr, rerr))
}

// neighbors exchanges one block with each neighbour. If sb is nil, all destinations get all of send.
func neighbors[T any](h *neighbourhood, k kind, send, recv []T, sb, rb *blocks, wrong error) error {
	t, err := elem[T]()
	sp, rp := bytesOf(send), bytesOf(recv)
	x, err := h.c.enter(k, noRoot, t, -1, first(err, wrong, apart(sp, rp)))
	if err != nil {
		return err
	}
	return x.leave(x.around(h, func(j int) []byte { return sb.orAll(sp, t.Size, j) }, func(i int) []byte { return rb.of(rp, t.Size, i) }))
}

// around exchanges messages with the neighbours. Of several from one rank, or to one, the first sent is the first
// received. Those to itself a rank copies.
func (x *collective) around(h *neighbourhood, out, in func(i int) []byte) error {
	me := x.c.rank
	var few [4][]byte
	own := few[:0]
	for i, r := range h.sources {
		switch r {
		case ProcNull:
		case me:
			own = append(own, in(i))
		default:
			x.get(r, in(i))
		}
	}
	for i := range h.dests {
		if h.order != nil {
			i = h.order[i]
		}
		switch r := h.dests[i]; r {
		case ProcNull:
		case me:
			p := out(i)
			if len(own) == 0 || len(own[0]) != len(p) {
				clear(x.c.coll.moves)
				x.c.coll.moves = x.c.coll.moves[:0]
				return fmt.Errorf("%w: %d bytes to itself are not what it receives", ErrMismatch, len(p))
			}
			copy(own[0], p)
			own = own[1:]
		default:
			x.put(r, out(i))
		}
	}
	return x.run()
}
