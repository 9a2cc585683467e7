package lease

// holderRules and granterRules are what the rules are to a property test: the shipped
// ones, or one with a rule broken.
type holderRules interface {
	Ask(now int64) int64
	Granted(a, now int64)
	Until() int64
}

type granterRules interface {
	Renew(a, now int64) bool
	Silent(now int64) bool
	End(now int64)
	FencedAt() int64
}

// mutant is a way to break one rule.
type mutant int

const (
	none              mutant = iota
	holderFromReceipt        // a lease counts from the receipt of a grant
	holderFromNewest         // it counts from the newest ask, whichever was granted
	holderUnasked            // a holder acts before anything was granted
	clocksCompared           // the granter counts from the value asked, as if it were of its clock
	countsFirst              // it counts from its first grant
	firstNotCounted          // it takes a holder that was granted once for one that never was
	noDrift                  // no margin for clocks that differ
	noSettle                 // none for what follows the end of the lease
	grantsSuspects           // a holder that was called lost is granted again
	grantsEnded              // so is one that was given up
	mutants
)

var mutantNames = [...]string{
	"none", "holder counts from receipt", "holder counts from newest ask", "holder acts unasked",
	"clocks compared", "counts from first grant", "first grant not counted", "no margin for drift", "no margin to settle",
	"grants after suspicion", "grants after the end",
}

func (m mutant) holder(h *Holder, now int64) holderRules {
	switch m {
	case holderFromReceipt, holderFromNewest, holderUnasked:
		return &wrongHolder{Holder: h, mutant: m, begun: now}
	}
	return h
}

func (m mutant) granter(g *Granter) granterRules {
	switch m {
	case none, holderFromReceipt, holderFromNewest, holderUnasked:
		return g
	}
	return &wrongGranter{Granter: g, mutant: m}
}

type wrongHolder struct {
	*Holder
	mutant
	begun, newest, until int64
}

func (h *wrongHolder) Ask(now int64) int64 {
	h.newest = h.Holder.Ask(now)
	return h.newest
}

func (h *wrongHolder) Granted(a, now int64) {
	h.Holder.Granted(a, now)
	switch h.mutant {
	case holderFromReceipt:
		h.until = now + h.terms.length()
	case holderFromNewest:
		h.until = h.newest + h.terms.length()
	}
}

func (h *wrongHolder) Until() int64 {
	switch u := h.Holder.Until(); {
	case h.mutant == holderUnasked && u == 0:
		return h.begun + h.terms.length()
	case h.mutant == holderUnasked:
		return u
	}
	return h.until
}

type wrongGranter struct {
	*Granter
	mutant
	grants       int
	first, asked int64
}

func (g *wrongGranter) Renew(a, now int64) bool {
	ok := g.Granter.Renew(a, now)
	if ok {
		g.grants, g.asked = g.grants+1, a
		if g.grants == 1 {
			g.first = now
		}
	}
	silent := g.silent >= g.terms.length()/2
	return ok || g.over && (g.mutant == grantsSuspects && silent || g.mutant == grantsEnded && !silent)
}

func (g *wrongGranter) FencedAt() int64 {
	f := g.Granter.FencedAt()
	switch {
	case !g.over:
		return f
	case g.mutant == clocksCompared && g.grants > 0:
		return g.asked + g.terms.fence()
	case g.mutant == countsFirst && g.grants > 0:
		return g.first + g.terms.fence()
	case g.mutant == firstNotCounted && g.grants == 1:
		return g.since
	case g.mutant == noDrift && g.grants > 0:
		return f - (g.terms.length()+drift-1)/drift
	case g.mutant == noSettle && g.grants > 0:
		return f - settle
	}
	return f
}
