package mpi

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
)

// A message shows that another rank disagrees about a call, and not in what: it has only a hash of that. So the rank that finds it
// asks the other's watch for the calls that that rank has begun last, and where in its program it is. This costs a call that
// succeeds nothing.
//
//	inquiry tag 4, bytes: incarnation u64, context u64
//	report  tag 5, u64s: incarnation, context, length of the place, then (what, root, bytes) of calls, then the place

const (
	tagInquiry    = 4
	tagInquired   = 5
	inquiryWithin = 2 * time.Second
	inquiryPause  = time.Millisecond
)

// inquired is what another rank has told.
type inquired struct {
	calls []call
	place string
}

// inquire asks a rank of c for its calls. It returns nil if the rank does not answer in time.
func (w *watch) inquire(c *core, rank int) *inquired {
	world := c.toWorld(rank)
	p := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, w.born), c.ctx)
	if w.say(world, tagInquiry, &basics[reflect.Uint8], p, sayBriefly) != nil {
		return nil
	}
	for deadline := time.Now().Add(inquiryWithin); time.Now().Before(deadline); time.Sleep(inquiryPause) {
		w.drain()
		w.mu.Lock()
		found := w.told[inquiry{c.ctx, world}]
		w.mu.Unlock()
		if found != nil {
			return found
		}
	}
	return nil
}

// inquiry names a rank's calls on a communicator.
type inquiry struct {
	ctx   uint64
	world int
}

// answerInquiry tells a rank of the world of the calls on a communicator.
func (w *watch) answerInquiry(world int, ctx uint64) {
	w.mu.Lock()
	x := w.comms[ctx]
	w.mu.Unlock()
	if x == nil {
		return
	}
	calls := x.c.recent()
	words := []uint64{w.born, ctx, 0}
	for _, a := range calls {
		words = append(words, a.what, a.root, a.bytes)
	}
	place := ""
	if x.c.coll.word.Load()&1 != 0 { // else it has left the call
		place = placeOfCollective(calls)
	}
	words[2] = uint64(len(place))
	p := append(bytesOf(words), place...)
	_ = w.say(world, tagInquired, &basics[reflect.Uint8], p, sayBriefly)
}

// placeOfCollective finds where in the program the newest of these calls was made.
func placeOfCollective(calls []call) string {
	var newest call
	for _, a := range calls {
		if a.seq() >= newest.seq() {
			newest = a
		}
	}
	for _, c := range waitreport.Calls(waitreport.Dump()) {
		if c.Site != "" && strings.HasPrefix(c.Name, "mpi."+kind(newest.what).String()) {
			return c.Site
		}
	}
	return ""
}

// hearInquired takes an answer.
func (w *watch) hearInquired(world int, p []byte) {
	if len(p) < 24 {
		return
	}
	ctx, n := binary.NativeEndian.Uint64(p[8:]), binary.NativeEndian.Uint64(p[16:])
	if p = p[24:]; n > uint64(len(p)) {
		return
	}
	in := &inquired{place: string(p[uint64(len(p))-n:])}
	for p = p[:uint64(len(p))-n]; len(p) >= 24; p = p[24:] {
		in.calls = append(in.calls, call{binary.NativeEndian.Uint64(p), binary.NativeEndian.Uint64(p[8:]), binary.NativeEndian.Uint64(p[16:])})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told == nil {
		w.told = map[inquiry]*inquired{}
	}
	w.told[inquiry{ctx, world}] = in
}

// disagreement says in what another rank's call differs from this one, which has the same kind and number. other is what it
// carries, nil if that is not known. ok is false if the rank does not answer, or its call is too long ago.
func (x *collective) disagreement(rank int, other *content) (text string, ok bool) {
	c := x.c.core
	in := c.env.watch.inquire(c, rank)
	if in == nil {
		return "", false
	}
	at := func(place string) string {
		if place == "" {
			return ""
		}
		return " at " + place
	}
	here := at(waitreport.Here())
	a, b, differ := firstDifference(c.recent(), in.calls)
	if !differ {
		i := slices.IndexFunc(in.calls, func(b call) bool { return b.seq() == x.seq })
		if i < 0 {
			return "", false
		}
		if other != nil {
			mine := x.content()
			return fmt.Sprintf("%s: rank %d%s is in %v, %v, rank %d%s in %v, %v", mine.differsIn(*other), c.rank, here, in.calls[i], mine, rank, at(in.place), in.calls[i], other), true
		}
		return fmt.Sprintf("rank %d%s gives another element type or operator than rank %d%s, in this call or one before: root and length are the same", rank, at(in.place), c.rank, here), true
	}
	there := at(in.place)
	if a.seq() != x.seq {
		here, there = "", ""
	}
	return fmt.Sprintf("%s: rank %d%s is in %v, rank %d%s in %v", a.differsIn(b), c.rank, here, a, rank, there, b), true
}

// differsIn names what two calls of one number differ in.
func (a call) differsIn(b call) string {
	if a.what != b.what {
		return "another call"
	}
	var all []string
	if a.root != b.root {
		all = append(all, "root")
	}
	if a.bytes != b.bytes {
		all = append(all, "length in bytes")
	}
	return "another " + strings.Join(all, " and ")
}
