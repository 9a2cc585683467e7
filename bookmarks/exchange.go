package bookmarks

import (
	"errors"
	"fmt"
)

// ErrProtocol is returned when a peer's bookmark contradicts what is known.
var ErrProtocol = errors.New("bookmarks: protocol error")

// Mark is one bookmark: From has sent To so many bytes since the job started.
type Mark struct {
	From, To int
	Sent     uint64
}

// Exchange is one rank's part in one exchange of bookmarks. Its driver sends what Next returns, and passes what
// arrives to Deliver. It calls Next again after each Deliver, until Done.
type Exchange struct {
	rank, np int
	sent     Counts // final; belongs to the Exchange
	sparse   bool
	got      Counts // bookmarks taken; zero ones are left out, unsorted until Done
	seen     map[int]struct{}

	step  int            // staggered: the step we are in
	told  bool           // staggered: our bookmark of this step is sent
	early map[int]uint64 // staggered: arrived before their step

	next    int // sparse: index in sent of the next bookmark to send
	senders int // sparse: how many bookmarks come, -1 unknown
	taken   int // sparse: how many have come
}

// Staggered returns the exchange in which all ranks meet in Steps(np) steps.
// sent belongs to the exchange from now on and changes no more.
func Staggered(rank, np int, sent Counts) *Exchange {
	return &Exchange{rank: rank, np: np, sent: sent}
}

// Sparse returns the exchange between ranks that have talked. It is done when Senders was called and that many
// bookmarks have come.
func Sparse(rank, np int, sent Counts) *Exchange {
	return &Exchange{rank: rank, np: np, sent: sent, sparse: true, senders: -1}
}

// Senders tells a sparse exchange how many ranks have ever sent to this one.
func (x *Exchange) Senders(n int) error {
	if x.senders >= 0 && x.senders != n {
		return fmt.Errorf("%w: rank %d was told of %d senders, then of %d", ErrProtocol, x.rank, x.senders, n)
	}
	x.senders = n
	return x.overflow()
}

// Next returns the next bookmark to send. It returns false if there is none now: something must arrive first,
// or this rank's part is done.
func (x *Exchange) Next() (Mark, bool) {
	if x.sparse {
		if x.next == len(x.sent) {
			return Mark{}, false
		}
		c := x.sent[x.next]
		x.next++
		return Mark{x.rank, c.Peer, c.Bytes}, true
	}
	for x.step < Steps(x.np) {
		peer, first := Partner(x.rank, x.np, x.step)
		if peer < 0 {
			x.step++
			continue
		}
		if first && !x.told {
			x.told = true
			return x.mark(peer), true
		}
		n, ok := x.early[peer]
		if !ok {
			return Mark{}, false
		}
		delete(x.early, peer)
		x.take(peer, n)
		x.step, x.told = x.step+1, false
		if !first {
			return x.mark(peer), true
		}
	}
	return Mark{}, false
}

func (x *Exchange) mark(peer int) Mark { return Mark{x.rank, peer, x.sent.Of(peer)} }

func (x *Exchange) take(peer int, n uint64) {
	if n != 0 {
		x.got = append(x.got, Count{peer, n})
	}
}

// Deliver takes the bookmark that a peer has sent to this rank. One that was
// delivered before is dropped.
func (x *Exchange) Deliver(from int, sent uint64) error {
	if from < 0 || from >= x.np || from == x.rank {
		return fmt.Errorf("%w: bookmark of rank %d came to rank %d of %d", ErrProtocol, from, x.rank, x.np)
	}
	if !x.sparse {
		if StepOf(x.rank, from, x.np) >= x.step {
			if x.early == nil {
				x.early = make(map[int]uint64)
			}
			x.early[from] = sent
		}
		return nil
	}
	if sent == 0 {
		return fmt.Errorf("%w: rank %d, which never sent, has sent rank %d a bookmark", ErrProtocol, from, x.rank)
	}
	if x.known(from) {
		return nil
	}
	x.taken++
	x.take(from, sent)
	return x.overflow()
}

// known records that the peer's bookmark has come, and reports whether it had come before. If senders are few
// it searches the list itself: a million ranks with six neighbours each need no million maps.
func (x *Exchange) known(from int) bool {
	const few = 32
	if x.seen == nil && x.taken < few {
		for _, c := range x.got {
			if c.Peer == from {
				return true
			}
		}
		return false
	}
	if x.seen == nil {
		x.seen = make(map[int]struct{}, 4*few)
		for _, c := range x.got {
			x.seen[c.Peer] = struct{}{}
		}
	}
	_, ok := x.seen[from]
	x.seen[from] = struct{}{}
	return ok
}

func (x *Exchange) overflow() error {
	if x.senders >= 0 && x.taken > x.senders {
		return fmt.Errorf("%w: rank %d has bookmarks of %d ranks but was told of %d senders", ErrProtocol, x.rank, x.taken, x.senders)
	}
	return nil
}

// Done reports whether every bookmark was sent and every expected one is here.
func (x *Exchange) Done() bool {
	if x.sparse {
		return x.next == len(x.sent) && x.senders == x.taken
	}
	return x.step == Steps(x.np)
}

// Expected returns what the peers have sent to this rank, once Done.
func (x *Exchange) Expected() Counts {
	x.got.sort()
	return x.got
}

// Queued returns how many bookmarks have arrived that must wait for their step.
func (x *Exchange) Queued() int { return len(x.early) }

// Waiting says in words what the exchange waits for, "" if it is done.
func (x *Exchange) Waiting() string {
	switch {
	case x.Done():
		return ""
	case !x.sparse:
		peer, _ := Partner(x.rank, x.np, x.step)
		return fmt.Sprintf("the bookmark of rank %d (step %d of %d)", peer, x.step+1, Steps(x.np))
	case x.senders < 0:
		return "the number of ranks that sent to it"
	}
	return fmt.Sprintf("bookmarks, %d of %d have come", x.taken, x.senders)
}
