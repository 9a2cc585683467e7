package lease

// Holder is the side that may act while it has a lease. All times are of its own clock,
// in milliseconds. It is not safe for concurrent use.
type Holder struct {
	terms Terms
	asked []int64 // values that a grant may still bring back, in rising order
	until int64   // 0: nothing was granted yet
}

// NewHolder returns a holder without a lease: it may not act yet.
func NewHolder(t Terms) *Holder { return &Holder{terms: t} }

// Ask returns the value to ask the granter with. The caller must ask every Terms.H.
// Values do not fall: two asks within a millisecond have the same.
func (h *Holder) Ask(now int64) (a int64) {
	for len(h.asked) > 0 && h.asked[0]+h.terms.length() <= now {
		h.asked = h.asked[1:] // its lease would have expired
	}
	if n := len(h.asked); n > 0 && h.asked[n-1] >= now {
		return h.asked[n-1]
	}
	h.asked = append(h.asked, now)
	return now
}

// Granted takes a grant of the value a. A grant that is doubled, late or overtaken by a
// newer one changes nothing. The same holds for a value that was never asked, and for a
// grant that comes when the last lease, or the one that it grants, has expired.
func (h *Holder) Granted(a, now int64) {
	if h.until != 0 && now >= h.until || now >= a+h.terms.length() {
		return
	}
	for i, v := range h.asked {
		if v == a {
			h.asked = h.asked[i+1:]
			h.until = max(h.until, a+h.terms.length())
			return
		}
	}
}

// Until returns when the lease expires: the holder may act while its clock is below. It
// is 0 before the first grant.
func (h *Holder) Until() int64 { return h.until }
