package mpi

import "github.com/gorun-mpi/gorun/internal/rank/schedule"

// Reductions of long buffers by recursive halving, after Rabenseifner. In each round two participants (see
// order) combine what they have in common, each of them one half, and go on with that half. The distance
// between them doubles from round to round. Neighbours go first: they exchange most, and are likely to be on
// one node. Ranges are combined in the order of ranks, as in a tree.

// halves is one rank's part in such a reduction.
type halves struct {
	schedule.Order
	v   int   // the participant that this rank acts for
	at  []int // where the shares of the participants begin, and the end
	lo  int   // this rank's shares: [lo, hi)
	hi  int
	mem *scratch
}

// halvesOf begins with everything. The shares are equal, give or take an element. The caller may set others.
func (x *collective) halvesOf(total int) halves {
	o := schedule.OrderOf(x.c.size)
	at, mem := borrowSlice[int](o.Whole + 1)
	b := evenly(total, o.Whole)
	for i := range o.Whole {
		at[i], at[i+1] = b.at(i)
	}
	return halves{Order: o, v: o.Participant(x.c.rank), at: at, hi: o.Whole, mem: mem}
}

// split returns the half that this rank keeps in the round of a bit, and the half that goes to its partner.
func (h *halves) split(bit int) (keep, give [2]int) {
	mid := (h.lo + h.hi) / 2
	keep, give = [2]int{h.lo, mid}, [2]int{mid, h.hi}
	if h.v&bit != 0 {
		keep, give = give, keep
	}
	return keep, give
}

func part[T any](h *halves, p []T, r [2]int) []T { return p[h.at[r[0]]:h.at[r[1]]] }

// pairUp makes participants of pairs where the number of ranks is no power of two. One rank of a pair acts for
// both from then on. It goes on with the combination of both in acc. pairUp reports whether this rank is done.
func pairUp[T any](x *collective, h *halves, send, acc []T, root int, op Operator[T]) (done bool, err error) {
	me, partner := x.c.rank, h.Partner(x.c.rank)
	switch {
	case partner < 0:
		return false, nil
	case h.Worker(h.v, root) != me:
		return true, x.send(partner, bytesOf(send))
	}
	if partner < me && !same(send, acc) {
		if err := x.recv(partner, bytesOf(acc)); err != nil {
			return false, err
		}
		op.Apply(acc, send)
		return false, nil
	}
	tmp, s := borrowSlice[T](len(send))
	defer s.giveBack()
	if err := x.recv(partner, bytesOf(tmp)); err != nil {
		return false, err
	}
	copy(acc, send)
	combine(acc, tmp, partner < me, op)
	return false, nil
}

// halve combines until one share is left in acc. The first round takes the contributions from where they lie.
func halve[T any](x *collective, h *halves, send, acc []T, root int, op Operator[T], segment int) error {
	for bit := 1; bit < h.Whole; bit *= 2 {
		keep, give := h.split(bit)
		err := meet(x, &meeting[T]{
			peer: h.Worker(h.v^bit, root), lower: h.v&bit != 0,
			out: part(h, send, give), own: part(h, send, keep), acc: part(h, acc, keep),
		}, op, segment)
		if err != nil {
			return err
		}
		h.lo, h.hi = keep[0], keep[1]
		send = acc
	}
	return nil
}

// meeting is one round with one partner.
type meeting[T any] struct {
	peer  int
	lower bool // the partner's ranks are the lower ones
	out   []T  // what the partner gets
	own   []T  // what is combined with what the partner sends
	acc   []T  // the result; it may be own
}

// meet exchanges and combines in segments, which stay in the cache meanwhile.
func meet[T any](x *collective, m *meeting[T], op Operator[T], segment int) error {
	pieces := x.pieces(max(len(m.out), len(m.own))*x.t.Size, segment).n
	outs, owns := evenly(len(m.out), pieces), evenly(len(m.own), pieces)
	direct := !same(m.own, m.acc) && (m.lower || op.Commutative())
	var tmp []T
	if !direct {
		var s *scratch
		tmp, s = borrowSlice[T]((len(m.own) + pieces - 1) / pieces)
		defer s.giveBack()
	}
	for i := range pieces {
		olo, ohi := outs.at(i)
		lo, hi := owns.at(i)
		acc, own, in := m.acc[lo:hi], m.own[lo:hi], m.acc[lo:hi]
		if !direct {
			in = tmp[:hi-lo]
		}
		if err := x.exchange(m.peer, bytesOf(m.out[olo:ohi]), m.peer, bytesOf(in)); err != nil {
			return err
		}
		switch {
		case direct:
			op.Apply(acc, own)
		case op.Commutative():
			copyApart(acc, own)
			op.Apply(acc, in)
		default:
			copyApart(acc, own)
			combine(acc, in, m.lower, op)
		}
	}
	return nil
}

// double is halve backwards: every rank gets all shares of acc.
func double[T any](x *collective, h *halves, acc []T) error {
	for bit := h.Whole / 2; bit > 0; bit /= 2 {
		all := h.parent(bit)
		other := [2]int{all[0], h.lo}
		if h.lo == all[0] {
			other = [2]int{h.hi, all[1]}
		}
		own := [2]int{h.lo, h.hi}
		peer := h.Worker(h.v^bit, noRoot)
		if err := x.exchange(peer, bytesOf(part(h, acc, own)), peer, bytesOf(part(h, acc, other))); err != nil {
			return err
		}
		h.lo, h.hi = all[0], all[1]
	}
	return nil
}

// parent returns the range that was split in the round of a bit.
func (h *halves) parent(bit int) [2]int {
	lo, hi := 0, h.Whole
	for b := 1; b < bit; b *= 2 {
		mid := (lo + hi) / 2
		if h.v&b != 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return [2]int{lo, hi}
}

// allreduceHalving is halve, then double.
func allreduceHalving[T any](x *collective, send, recv []T, op Operator[T], segment int) error {
	h := x.halvesOf(len(send))
	defer h.mem.giveBack()
	done, err := pairUp(x, &h, send, recv, noRoot, op)
	partner := h.Partner(x.c.rank)
	switch {
	case err != nil:
		return err
	case done:
		return x.recv(partner, bytesOf(recv))
	case partner >= 0:
		send = recv
	}
	if err := halve(x, &h, send, recv, noRoot, op, segment); err != nil {
		return err
	}
	if err := double(x, &h, recv); err != nil {
		return err
	}
	if partner >= 0 {
		return x.send(partner, bytesOf(recv))
	}
	return nil
}

// reduceHalving is halve. Then the shares go up a tree to the root.
func reduceHalving[T any](x *collective, send, acc []T, op Operator[T], segment int) error {
	h := x.halvesOf(len(send))
	defer h.mem.giveBack()
	done, err := pairUp(x, &h, send, acc, x.root, op)
	if err != nil || done {
		return err
	}
	if h.Partner(x.c.rank) >= 0 {
		send = acc
	}
	if err := halve(x, &h, send, acc, x.root, op, segment); err != nil {
		return err
	}
	root := h.Participant(x.root)
	for bit := h.Whole / 2; bit > 0; bit /= 2 {
		peer := h.Worker(h.v^bit, x.root)
		if (h.v^root)&bit != 0 {
			return x.send(peer, bytesOf(part(&h, acc, [2]int{h.lo, h.hi})))
		}
		all := h.parent(bit)
		other := [2]int{all[0], h.lo}
		if h.lo == all[0] {
			other = [2]int{h.hi, all[1]}
		}
		if err := x.recv(peer, bytesOf(part(&h, acc, other))); err != nil {
			return err
		}
		h.lo, h.hi = all[0], all[1]
	}
	return nil
}
