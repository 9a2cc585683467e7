package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// limits is how long one of several addresses of a peer may take before the next is tried.
type limits struct {
	reach time.Duration // until its machine answers. The kernel repeats a lost first packet after 1 and 3 s
	greet time.Duration // until the rank does, which may be stopped or have much to do
}

var usual = limits{3500 * time.Millisecond, 15 * time.Second}

// errSlow: an address has not answered within its limit. It gets another chance.
var errSlow = errors.New("no answer")

// route is the addresses of a peer, in the order in which they are tried.
type route struct {
	tries []netip.AddrPort
	next  int     // the one that is tried
	whys  []error // what came of each when it was last tried; nil: it was not
	slow  bool    // one of this round was only slow
}

func newRoute(ips []netip.Addr, port uint16) route {
	r := route{whys: make([]error, len(ips))}
	for _, ip := range ips {
		r.tries = append(r.tries, netip.AddrPortFrom(ip, port))
	}
	return r
}

// at is the address to be tried.
func (r *route) at() netip.AddrPort { return r.tries[r.next] }

// failed notes why the present address cannot be used, and goes on to the next. It reports false when all have been
// tried and another round would come to the same end.
func (r *route) failed(err error) bool {
	r.whys[r.next] = err
	r.slow = r.slow || errors.Is(err, errSlow)
	if r.next++; r.next < len(r.tries) {
		return true
	}
	again := r.slow
	r.next, r.slow = 0, false
	return again
}

// err says what came of the addresses that were tried.
func (r *route) err() error {
	if len(r.tries) == 1 {
		return fmt.Errorf("connect to %v: %w", r.tries[0], r.whys[0])
	}
	var format []string
	var args []any
	for i, why := range r.whys {
		if why != nil {
			format = append(format, "%v: %w")
			args = append(args, r.tries[i], why)
		}
	}
	return fmt.Errorf("connect to any of its addresses: "+strings.Join(format, "; "), args...)
}

// String names the addresses that were tried.
func (r *route) String() string {
	var names []string
	for i, at := range r.tries {
		switch {
		case r.whys[i] != nil:
			names = append(names, fmt.Sprintf("%v (%v)", at, r.whys[i]))
		case i == r.next:
			names = append(names, at.String())
		}
	}
	return strings.Join(names, ", ")
}
