package engine

// Two indexes by the hash of the context find what belongs to one context without a look at
// everything else:
//
//	table.kin   the queues of the match table: posted receives, unexpected messages and probes
//	pending     sends that wait for their receiver, and plans in progress
//
// Both are chains linked through their elements, as the buckets of the match table are. Two
// contexts may share a chain; chains are made shorter as they fill. So Free of a communicator costs
// what that communicator has left, and not what others have.

func contextHash(ctx uint64) uint64 {
	h := ctx * 0xd6e8feb86659fd93
	return h ^ h>>32
}

// queuesOf calls f for the queues of a context. f may empty them.
func (t *table) queuesOf(ctx uint64, f func(q *queue)) {
	for q := t.kin[contextHash(ctx)&t.mask]; q != nil; q = q.sibling {
		if t.steps++; q.key.ctx == ctx {
			f(q)
		}
	}
}

// unexpectedOf returns the unexpected messages of a context. Those of one source and tag are in order of arrival.
func (t *table) unexpectedOf(ctx uint64) (all []*message) {
	if t.kept == 0 {
		return nil
	}
	t.queuesOf(ctx, func(q *queue) {
		for m := q.head; q.class == exact && m != nil; m = m.in[exact].next {
			t.steps++
			all = append(all, m)
		}
	})
	return all
}

// postedOf returns the posted receives of a context.
func (t *table) postedOf(ctx uint64) (all []*request) {
	if t.alone != nil && t.alone.ctx == ctx {
		all = append(all, t.alone)
	}
	t.queuesOf(ctx, func(q *queue) {
		for r := q.posted.head; r != nil; r = r.next {
			t.steps++
			all = append(all, r)
		}
	})
	return all
}

// pending is an index of requests by context.
type pending struct {
	chains []*request // linked through request.kin
	count  int
	steps  int // counts what was looked at, for tests
}

// kin links the requests of a chain.
type kin struct{ next, prev *request }

func (p *pending) chain(ctx uint64) **request {
	return &p.chains[contextHash(ctx)&uint64(len(p.chains)-1)]
}

// add adds a request that is not over. complete takes it out, as afterIndexed tells it to.
func (p *pending) add(r *request) {
	if p.count == len(p.chains) {
		p.grow()
	}
	p.count++
	r.after |= afterIndexed
	p.link(r)
}

func (p *pending) link(r *request) {
	first := p.chain(r.ctx)
	if r.kin = (kin{next: *first}); *first != nil {
		(*first).kin.prev = r
	}
	*first = r
}

func (p *pending) grow() {
	old := p.chains
	p.chains = make([]*request, max(16, 2*len(old)))
	for _, r := range old {
		for r != nil {
			next := r.kin.next
			p.link(r)
			r = next
		}
	}
}

func (p *pending) remove(r *request) {
	p.count--
	r.after &^= afterIndexed
	if r.kin.prev != nil {
		r.kin.prev.kin.next = r.kin.next
	} else {
		*p.chain(r.ctx) = r.kin.next
	}
	if r.kin.next != nil {
		r.kin.next.kin.prev = r.kin.prev
	}
	r.kin = kin{}
}

// of returns the requests of a context.
func (p *pending) of(ctx uint64) (all []*request) {
	if p.count == 0 {
		return nil
	}
	for r := *p.chain(ctx); r != nil; r = r.kin.next {
		if p.steps++; r.ctx == ctx {
			all = append(all, r)
		}
	}
	return all
}
