package ckpt

import (
	"fmt"

	"github.com/gorun-mpi/gorun/bookmarks"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// flushed starts the exchange. Until the gate opens again, the rank sends nothing that counts.
func (r *Rank) flushed(sent []uint64) {
	r.state = Exchanging
	counts := bookmarks.FromSlice(sent, r.rank)
	if r.sparse {
		r.exchange = bookmarks.Sparse(r.rank, r.np, counts)
		r.send(oob.Msg{Kind: oob.Dests, To: oob.Head, A: 1, Data: dests(counts)})
	} else {
		r.exchange = bookmarks.Staggered(r.rank, r.np, counts)
	}
	if r.senders >= 0 && r.check(r.exchange.Senders(r.senders)) {
		return
	}
	if r.earlyOwner == r.attempt {
		for _, m := range r.early {
			if r.check(r.exchange.Deliver(m.From, m.Sent)) {
				return
			}
		}
	}
	r.early = nil
	r.pump()
}

// bookmark takes a bookmark of a peer. The peer may be ahead: its gate may have closed before ours, and its
// exchange may have begun before this rank has heard of the attempt.
func (r *Rank) bookmark(m *oob.Msg) {
	if m.Attempt < r.attempt || m.Attempt == r.attempt && !r.live {
		return
	}
	if m.Attempt == r.attempt && r.exchange != nil {
		if !r.failed && !r.check(r.exchange.Deliver(int(m.From), m.A)) {
			r.pump()
		}
		return
	}
	if m.Attempt < r.earlyOwner {
		return
	}
	if m.Attempt > r.earlyOwner {
		// Attempts come one after the other: the older one is over.
		r.early, r.earlyOwner = nil, m.Attempt
	}
	r.early = append(r.early, bookmarks.Mark{From: int(m.From), To: r.rank, Sent: m.A})
}

func (r *Rank) announced(senders int) {
	if !r.sparse || r.failed {
		return
	}
	r.senders = senders
	if r.exchange != nil && !r.check(r.exchange.Senders(senders)) {
		r.pump()
	}
}

// pump sends the bookmarks that are due and goes on to draining when all are in.
func (r *Rank) pump() {
	if r.state != Exchanging {
		return
	}
	for m, ok := r.exchange.Next(); ok; m, ok = r.exchange.Next() {
		r.send(oob.Msg{Kind: oob.Bookmark, To: int32(m.To), A: m.Sent})
	}
	if r.exchange.Done() {
		r.state = Draining
		r.drain = bookmarks.NewDrain(r.rank, r.exchange.Expected())
		r.act(RankAction{Type: ActDrain})
	}
}

// progress compares what was received with the bookmarks. Bytes that arrive when the rank is already Ready were
// sent after a bookmark: then the cut is broken.
func (r *Rank) progress(recv []uint64) {
	done, err := r.drain.Update(recv)
	if r.check(err) || !done || r.state != Draining {
		return
	}
	r.state = Ready
	r.act(RankAction{Type: ActReady})
	r.report(oob.Ready, 0)
}

func (r *Rank) check(err error) bool {
	if err != nil {
		r.fail(err.Error())
	}
	return err != nil
}

// where describes what the rank waits for: its part in the protocol, then what the driver says of the program.
func (r *Rank) where(program []byte) []byte {
	var s string
	switch r.state {
	case Running:
		s = "writes its image"
		if r.native {
			s = "goes on while its agent writes its image"
		}
	case Preparing:
		s = "waits for the others' Points"
		if r.target != 0 {
			s = fmt.Sprintf("is on its way to Point %d", r.target)
		}
		if r.stopped {
			s = fmt.Sprintf("stands at Point %d", r.target)
		}
	case Closing:
		s = "closes its gate"
	case Exchanging:
		s = "waits for " + r.exchange.Waiting()
	case Draining:
		s = "waits for messages in flight: " + r.drain.Waiting()
	case Ready:
		s = "is ready"
	case Capturing:
		s = "copies its state"
	case Captured:
		s = "has copied its state"
	}
	if r.failed {
		s += ", has failed"
	}
	if len(program) > 0 {
		s += "; " + string(program)
	}
	return []byte(s)
}
