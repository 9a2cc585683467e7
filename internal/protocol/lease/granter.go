package lease

import "math"

// Granter is the side that lets a holder act, and knows when it cannot act any more. All
// times are of its own clock, in milliseconds, except the values asked, which are the
// holder's. It is not safe for concurrent use.
type Granter struct {
	terms   Terms
	heard   bool  // a holder has asked
	newest  int64 // the newest value asked
	granted int64 // when this was last answered; 0 with heard unset
	silent  int64 // how long nothing new was heard, at the last call of Silent
	looked  int64 // when Silent was last called, or something was heard
	over    bool  // nothing is granted any more
	since   int64 // since when
}

// NewGranter returns the granter of a holder that has not asked yet.
func NewGranter(t Terms) *Granter { return &Granter{terms: t} }

// Renew takes an ask with the value a, and reports whether it is granted: then the
// caller sends the value back. An ask that is doubled or overtaken by a newer one is not
// granted, and is not a sign of life.
func (g *Granter) Renew(a, now int64) (grant bool) {
	if g.over || g.heard && a <= g.newest {
		return false
	}
	g.heard, g.newest, g.granted = true, a, now
	g.silent, g.looked = 0, now
	return true
}

// Silent reports whether the holder is lost. It is lost for good once nothing new was
// heard from it for half a lease. The caller must call it every Terms.H or more often.
func (g *Granter) Silent(now int64) bool {
	if !g.heard || g.over {
		return g.over
	}
	g.silent += min(now-g.looked, 2*g.terms.H.Milliseconds())
	g.looked = now
	if g.silent >= g.terms.length()/2 {
		g.End(now)
	}
	return g.over
}

// SilentFor returns for how many milliseconds nothing was heard, at the last call of
// Silent.
func (g *Granter) SilentFor() int64 { return g.silent }

// End gives the holder up: nothing is granted to it any more.
func (g *Granter) End(now int64) {
	if !g.over {
		g.over, g.since = true, now
	}
}

// FencedAt returns the time from which on the holder cannot act any more. The time is
// math.MaxInt64 as long as the holder may still be granted something.
func (g *Granter) FencedAt() int64 {
	switch {
	case !g.over:
		return math.MaxInt64
	case !g.heard:
		return g.since
	default:
		return g.granted + g.terms.fence()
	}
}
