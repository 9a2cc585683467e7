package schedule

// Reductions of long buffers by recursive halving, after Rabenseifner. In each round two participants (see Order)
// combine what they have in common, each of them one half, and go on with that half. The distance between them doubles
// from round to round. Neighbours go first: they exchange most, and are likely to be on one node. Ranges are combined
// in the order of ranks, as in a tree.

// halves is one rank's part in such a reduction.
type halves struct {
	Order
	rank, root int
	v          int // the participant that this rank acts for
	partner    int
	share      Blocks // of the participants
	lo, hi     int    // this rank's shares: [lo, hi)
}

// halvesOf begins with everything.
func halvesOf(rank, n, root int, share Blocks) halves {
	o := OrderOf(n)
	return halves{Order: o, rank: rank, root: root, v: o.Participant(rank), partner: o.Partner(rank), share: share, hi: o.Whole}
}

// pairUp joins the contribution of the other rank of a pair, for which this one acts.
func (h *halves) pairUp(p *partial) {
	if h.partner >= 0 {
		p.take(h.partner, h.partner < h.rank)
	}
}

// span returns where some shares lie.
func (h *halves) span(first, end int) (lo, hi int) {
	lo, _ = h.share(first)
	_, hi = h.share(end - 1)
	return lo, hi
}

// halve combines until one share is left. The first round takes the contribution from where it lies. Pieces stay in the
// cache meanwhile.
func (h *halves) halve(p *partial, cut Pieces) {
	for bit := 1; bit < h.Whole; bit *= 2 {
		mid, lower := (h.lo+h.hi)/2, h.v&bit != 0
		klo, khi, glo, ghi := h.lo, mid, mid, h.hi // keeps, gives
		if lower {
			klo, khi, glo, ghi = glo, ghi, klo, khi
		}
		h.lo, h.hi = klo, khi
		klo, khi = h.span(klo, khi)
		glo, ghi = h.span(glo, ghi)
		p.meet(h.Worker(h.v^bit, h.root), lower, klo, khi, p.acc.Part(glo, ghi), cut)
	}
}

// meet is one round with one partner: it exchanges what it gives for the elements [lo:hi), which it combines.
func (p *partial) meet(peer int, lower bool, lo, hi int, give Span, cut Pieces) {
	pieces := cut.of(max(hi-lo, give.Len))
	if pieces == 1 {
		p.s.round()
		p.s.recv(peer, p.spare().Part(lo, hi))
		p.s.send(peer, give)
		p.combine(lower, lo, hi)
		p.turn(lower)
		return
	}
	outs, owns := Evenly(give.Len, pieces), Evenly(hi-lo, pieces)
	for i := range pieces {
		from, to := owns(i)
		p.s.round()
		p.s.recv(peer, p.spare().Part(lo+from, lo+to))
		p.s.send(peer, give.Part(outs(i)))
		p.combine(lower, lo+from, lo+to)
	}
	p.turn(lower)
}

// grow goes back to what this rank had before the round of a bit. It returns where that lies which comes from the partner.
func (h *halves) grow(bit int) (lo, hi int) {
	first, end := 0, h.Whole
	for b := 1; b < bit; b *= 2 {
		if mid := (first + end) / 2; h.v&b != 0 {
			first = mid
		} else {
			end = mid
		}
	}
	if h.lo == first {
		lo, hi = h.span(h.hi, end)
	} else {
		lo, hi = h.span(first, h.lo)
	}
	h.lo, h.hi = first, end
	return lo, hi
}
