package mpi

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Ranks that disagree about a collective call may all succeed in it. If several take themselves for the root of
// a short Bcast, none of them waits for anything. The next call finds the disagreement, and Finalize does where
// there is no next call. This costs no message. What a rank tells the head when it enters Finalize carries the
// rank's account. What releases all ranks from Finalize carries the sum of all accounts.
//
//	account of a rank   = sum over its communicators of (hash of the calls made there) * weight
//	weight of a rank    = 1, that of the first rank of the communicator (see watch) 1 - its members
//	sum of all accounts = 0, if the hashes of all ranks are equal
//
// A rank that knows that a communicator has failed leaves it out. So a sum other than 0 need not mean a
// disagreement. Only after such a sum do the ranks tell rank 0 the hashes one by one (settle). Rank 0 tells
// everybody what it has found.

// account describes the calls that a rank has made on a communicator.
type account struct {
	ctx    uint64
	seq    uint64 // calls made
	hash   uint16 // of all of them, see team.history
	failed bool   // the communicator has failed, or a call still runs: the other fields prove nothing
	calls  []call // the last ones
}

// account returns the account of c, on which no more calls will be made.
func (c *core) account() account {
	word := c.coll.word.Load()
	a := account{ctx: c.ctx, seq: word >> 1, failed: word&1 != 0}
	if !a.failed {
		a.hash = c.coll.team.history
		_, _, err := c.eng.Iprobe(engine.AnySource, c.ctx|1, engine.AnyTag)
		a.failed = err != nil
	}
	return a
}

// weighed returns what an account adds to the sum.
func (c *core) weighed(a account) uint64 {
	if a.failed {
		return 0
	}
	h := a.ctx ^ a.seq*0x9e3779b97f4a7c15 ^ uint64(a.hash)*0xc2b2ae3d27d4eb4f
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 29
	if c.leads() {
		return h * uint64(1-c.count())
	}
	return h
}

// close adds the account of a freed communicator to that of the rank, and reports whether it has failed.
func (e *env) close(c *core) (failed bool) {
	if c.count() == 1 {
		return false
	}
	a := c.account()
	if a.failed {
		e.freedFailed.Store(true)
	}
	e.freed.Add(c.weighed(a))
	return a.failed
}

// account returns the rank's account.
func (e *env) account() uint64 {
	sum := e.freed.Load()
	for _, c := range e.watch.cores() {
		sum += c.weighed(c.account())
	}
	return sum
}

// No checkpoint meets messages of this context, because all ranks were released from Finalize.
var accountContext = contextOf(0, 0, "accounts")

const (
	tagAccounts = 0 // u64s: 1 if a communicator that was freed had failed, then accounts, see encode
	tagSettled  = 1 // bytes: what rank 0 has found
)

// settle finds out what the ranks disagree about. All ranks are in Finalize. It returns nil if communicators
// have failed and nothing else is wrong.
func (e *env) settle() error {
	var found []byte
	var err error
	if e.world.rank == 0 {
		found, err = e.hearAccounts()
	} else {
		found, err = e.tellAccounts()
	}
	e.watch.drain() // all that others found before has arrived by now
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%w: %s", ErrMismatch, found)
	}
	return err
}

func (e *env) tellAccounts() ([]byte, error) {
	words := []uint64{0}
	if e.freedFailed.Load() {
		words[0] = 1
	}
	for _, c := range e.watch.cores() {
		a := c.account()
		a.calls = c.recent()
		words = a.encode(words)
	}
	if err := e.eng.Send(0, accountContext, tagAccounts, &basics[reflect.Uint64], bytesOf(words), engine.Standard, nil); err != nil {
		return nil, err
	}
	return e.whole(0, tagSettled, reflect.Uint8)
}

// whole receives a message of any length.
func (e *env) whole(from int, tag int32, k reflect.Kind) ([]byte, error) {
	s, err := e.eng.Probe(from, accountContext, tag, nil)
	if err != nil {
		return nil, err
	}
	p := make([]byte, s.Bytes)
	_, err = e.eng.Recv(from, accountContext, tag, &basics[k], p, nil)
	return p, err
}

func (e *env) hearAccounts() ([]byte, error) {
	failed := e.freedFailed.Load()
	all := map[uint64][]ranked{}
	for _, c := range e.watch.cores() {
		a := c.account()
		a.calls = c.recent()
		all[a.ctx] = append(all[a.ctx], ranked{a, 0})
	}
	for r := 1; r < e.world.size; r++ {
		p, err := e.whole(r, tagAccounts, reflect.Uint64)
		if err != nil {
			return nil, err
		}
		words := viewOf[uint64](p)
		if len(words) == 0 {
			return nil, fmt.Errorf("rank %d says nothing of its calls", r)
		}
		failed = failed || words[0] != 0
		for _, a := range decodeAccounts(words[1:]) {
			all[a.ctx] = append(all[a.ctx], ranked{a, r})
		}
	}
	found := []byte(disagreement(all, failed, e.job.ContextPath))
	for r := 1; r < e.world.size; r++ {
		if err := e.eng.Send(r, accountContext, tagSettled, &basics[reflect.Uint8], found, engine.Standard, nil); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// ranked is an account of a rank of the world.
type ranked struct {
	account
	rank int
}

// disagreement says what the accounts of several ranks, by communicator, disagree about. It returns "" if some
// communicator has failed, because that explains the difference.
func disagreement(all map[uint64][]ranked, failed bool, pathOf func(ctx uint64) (string, bool)) string {
	var order []uint64
	for ctx, accounts := range all {
		if slices.ContainsFunc(accounts, func(a ranked) bool { return a.failed }) {
			failed = true
		} else {
			order = append(order, ctx)
		}
	}
	slices.SortFunc(order, func(a, b uint64) int { return cmp.Compare(all[a][0].rank, all[b][0].rank) })
	for _, ctx := range order {
		path, ok := pathOf(ctx)
		if !ok {
			path = "a communicator"
		}
		a := all[ctx][0]
		for _, b := range all[ctx][1:] {
			x, y, differs := firstDifference(a.calls, b.calls)
			switch {
			case differs:
				return fmt.Sprintf("on %s rank %d of the world has made %v, rank %d %v", path, a.rank, x, b.rank, y)
			case a.seq != b.seq:
				return fmt.Sprintf("on %s rank %d of the world has made %d collective calls, rank %d %d", path, a.rank, a.seq, b.rank, b.seq)
			case a.hash != b.hash:
				return fmt.Sprintf("on %s ranks %d and %d of the world have made calls with another operator or element type, or more than %d calls ago other calls", path, a.rank, b.rank, recentCalls)
			}
		}
	}
	if failed {
		return ""
	}
	return "on a communicator that was freed, or that only some ranks have made"
}

// encode appends ctx, seq, and the hash with the number of calls and the flag failed above it. For each call it
// then appends what, root and bytes.
func (a *account) encode(words []uint64) []uint64 {
	last := uint64(a.hash) | uint64(len(a.calls))<<16
	if a.failed {
		last |= 1 << 63
	}
	words = append(words, a.ctx, a.seq, last)
	for _, x := range a.calls {
		words = append(words, x.what, x.root, x.bytes)
	}
	return words
}

// decodeAccounts is the inverse of encode for several accounts. It leaves out an account that is cut off.
func decodeAccounts(words []uint64) (all []account) {
	for len(words) >= 3 {
		a := account{ctx: words[0], seq: words[1], hash: uint16(words[2]), failed: words[2]>>63 != 0}
		n := words[2] >> 16 & (1<<47 - 1)
		if words = words[3:]; n > uint64(len(words)/3) {
			return all
		}
		for range n {
			a.calls = append(a.calls, call{words[0], words[1], words[2]})
			words = words[3:]
		}
		all = append(all, a)
	}
	return all
}
