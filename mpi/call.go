package mpi

import "fmt"

// call is a call as the ranks report it to each other: a copy of a recentCall, with the root as all ranks of the
// communicator may compare it. On an intercommunicator its number is, from the top:
//
//	bit 40 set | 39 this rank is not it | 1.. rank in its group | 0 in the group that is higher in the world
type call struct{ what, root, bytes uint64 }

const (
	rootAcross = 1 << 40
	rootNot    = 1 << 39
	rootHigh   = 1
)

func (a call) seq() uint64 { return a.what >> 8 }

// across reports whether the call names a root as on an intercommunicator.
func (a call) across() bool { return int64(a.root) >= rootAcross }

func (a call) String() string {
	if kind(a.what) == kindFinalize {
		if int64(a.bytes) == freedBytes {
			return "none any more, as it has freed the communicator"
		}
		return "Finalize"
	}
	s := fmt.Sprintf("call %d, %v", a.seq(), kind(a.what))
	if int64(a.bytes) == refusedBytes {
		return s + ", whose arguments were wrong there"
	}
	if kind(a.what).rooted() {
		s += ", " + a.rootName()
	}
	if int64(a.bytes) >= 0 && kind(a.what) != kindBarrier {
		s += fmt.Sprintf(", %d bytes", a.bytes)
	}
	return s
}

func (a call) rootName() string {
	if !a.across() {
		return fmt.Sprintf("root %d", int64(a.root))
	}
	group := "lower"
	if a.root&rootHigh != 0 {
		group = "higher"
	}
	if a.root&rootNot != 0 {
		return fmt.Sprintf("root another rank of the %s group", group)
	}
	return fmt.Sprintf("root %d of the %s group", a.root&^rootAcross>>1, group)
}

// agreed returns a call of this rank with the root as all ranks may compare it.
func (c *core) agreed(x call) call {
	root := int64(x.root)
	if c.inter == nil || root == noRoot {
		return x
	}
	low, rank, not := c.inter.low, acrossRoot(c.rank), uint64(0)
	switch root {
	case recentSelf:
	case recentOther:
		not = rootNot
	default:
		low, rank = !low, int(root)
	}
	x.root = rootAcross | not | uint64(rank)<<1
	if !low {
		x.root |= rootHigh
	}
	return x
}

// agrees reports whether two ranks may have made the same call. Of a root in its own group a
// rank may know only that it is another.
func (a call) agrees(b call) bool {
	if a == b || a.what == b.what && kind(a.what) == kindFinalize {
		return true
	}
	const mine = rootAcross | rootHigh
	if a.what != b.what || a.bytes != b.bytes || !a.across() || a.root&mine != b.root&mine {
		return false
	}
	one, other := a.root&^rootNot, b.root&^rootNot
	return a.root&b.root&rootNot != 0 || (a.root^b.root)&rootNot != 0 && one != other
}

// differ returns an error if two ranks' calls of equal number differ. The ranks are of the world.
func (c *core) differ(a int, as []call, b int, bs []call) error {
	x, y, ok := firstDifference(as, bs)
	if !ok {
		return nil
	}
	class := ErrMismatch
	if kind(x.what) == kindDup || kind(y.what) == kindDup {
		class = errMade
	}
	in := ""
	if c.inter != nil {
		in = " of the world"
	} else {
		a, b = c.fromWorld(a), c.fromWorld(b)
	}
	return fmt.Errorf("%w: %s: rank %d%s is in %v, rank %d in %v", class, x.differsIn(y), a, in, x, b, y)
}

func firstDifference(as, bs []call) (x, y call, ok bool) {
	for _, x := range as {
		for _, y := range bs {
			if x.seq() == y.seq() && !x.agrees(y) {
				return x, y, true
			}
		}
	}
	return call{}, call{}, false
}
