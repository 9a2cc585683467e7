package mpi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/rpi"
)

// The watch finds collectives that would hang because the ranks disagree, e.g.
// two that each take the other for the root. It looks at the communicators
// twice a second and costs the calls themselves a few stores:
//
//	member, blocked in the same call at two looks,
//	or whose call was refused for its arguments,
//	or who was in Finalize at two looks              --report-->  rank 0 of the communicator
//	rank 0, if two reports differ about one call     --verdict->  all members, and poisons it
//
// Reports and verdicts travel in a context of their own and are drained at each
// look, so that none stays behind.
//
//	report   tag 0, u64s: incarnation (born), context, then (what, root, bytes) of the calls begun last
//	verdict  tag 1, bytes: incarnation u64, context u64, class u8, text
type watch struct {
	env  *env
	born uint64 // incarnation in which the program began, the same in all ranks

	mu       sync.Mutex
	comms    map[uint64]*watched
	verdicts map[uint64]error // why a communicator was poisoned
	started  bool
	ended    bool // the last look was in Finalize
	quit     chan struct{}
	done     chan struct{}

	draining sync.Mutex
}

// watched is a communicator, and what its rank 0 has been told.
type watched struct {
	c       *core
	seen    uint64 // call in progress at the last look
	told    uint64 // call that was reported
	refused uint64 // call that was reported as refused
	left    bool   // it was reported that no more calls come
	reports map[int][]call
}

// call is a copy of a recentCall.
type call struct{ what, root, bytes uint64 }

func (a call) seq() uint64 { return a.what >> 8 }

func (a call) String() string {
	if kind(a.what) == kindFinalize {
		return "Finalize"
	}
	s := fmt.Sprintf("call %d, %v", a.seq(), kind(a.what))
	if int64(a.bytes) == refusedBytes {
		return s + ", whose arguments were wrong there"
	}
	if kind(a.what).rooted() {
		s += fmt.Sprintf(", root %d", int64(a.root))
	}
	if int64(a.bytes) >= 0 && kind(a.what) != kindBarrier {
		s += fmt.Sprintf(", %d bytes", a.bytes)
	}
	return s
}

var (
	watchEvery = 500 * time.Millisecond // less in tests
	sayWithin  = 2 * time.Second        // then a rank that does not take it is left alone; more in tests
)

const (
	sayBriefly = 50 * time.Millisecond
	tagReport  = 0
	tagVerdict = 1
)

var watchContext = contextOf(0, 0, "watch")

// classes are the errors that a verdict can carry to other ranks.
var classes = []error{ErrMismatch, ErrPeerFailed, ErrDeadline, ErrTruncate, ErrType}

func (w *watch) init(e *env) {
	// A process that is restored as a whole goes on with its calls: what was said
	// of them in the incarnation before is still true. One that begins anew from a
	// portable image must not believe what that holds.
	w.env, w.born = e, e.job.Incarnation()
	w.comms = map[uint64]*watched{}
	w.verdicts = map[uint64]error{}
	e.job.RegisterContext(watchContext, "the watch over collectives")
}

// add makes a communicator known.
func (w *watch) add(c *core) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.comms[c.ctx] = &watched{c: c}
}

// remove forgets it, unless a call was refused here of which the others, who may wait in
// it, are still to be told: by the next look, or by rank 0 when they have reported.
func (w *watch) remove(c *core) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.verdicts, c.ctx)
	refused := c.coll.refused.Load()
	if x := w.comms[c.ctx]; x != nil && (refused != x.refused || refused != 0 && c.rank == 0) {
		return
	}
	delete(w.comms, c.ctx)
}

// start begins to watch, at the first collective among several ranks.
func (w *watch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return
	}
	w.started, w.quit, w.done = true, make(chan struct{}), make(chan struct{})
	go w.run()
}

// stop ends the watch and waits for it.
func (w *watch) stop() {
	w.mu.Lock()
	started := w.started
	w.started = true // for good
	w.mu.Unlock()
	if started && w.quit != nil {
		close(w.quit)
		<-w.done
	}
}

func (w *watch) run() {
	defer close(w.done)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-tick.C:
			w.look()
		}
	}
}

// look reports calls that have not moved since the last look, and hears what
// others report.
func (w *watch) look() {
	w.mu.Lock()
	var stuck []*watched
	ends := w.ended
	w.ended = w.env.ended.Load()
	for _, x := range w.comms {
		seq := x.c.coll.running()
		refused := x.c.coll.refused.Load()
		blocked := seq != 0 && seq == x.seen && seq != x.told
		if blocked {
			x.told = seq
		}
		leaves := ends && !x.left && x.c.size > 1
		x.left = x.left || leaves
		if blocked || leaves || refused != x.refused {
			stuck = append(stuck, x)
		}
		x.refused = refused
		x.seen = seq
	}
	w.mu.Unlock()
	for _, x := range stuck {
		if err := w.report(x.c); errors.Is(err, rpi.ErrDeadline) {
			w.mu.Lock()
			x.told, x.left = 0, false // to be said again: the time may have passed while this process was an image
			w.mu.Unlock()
		}
	}
	w.drain()
}

// report tells rank 0 of the communicator the calls begun last.
func (w *watch) report(c *core) error {
	calls := c.recent()
	if c.rank == 0 {
		w.compare(c.ctx, c.toWorld(0), calls)
		return nil
	}
	words := []uint64{w.born, c.ctx}
	for _, x := range calls {
		words = append(words, x.what, x.root, x.bytes)
	}
	return w.say(c.toWorld(0), tagReport, &basics[reflect.Uint64], bytesOf(words), sayWithin)
}

// recent copies the calls begun last.
func (c *core) recent() []call {
	var out []call
	last := c.coll.word.Load() >> 1
	for i := range c.coll.recent {
		if x, ok := c.coll.recent[i].get(last); ok {
			out = append(out, x)
		}
	}
	if root := int64(noRoot); c.env.ended.Load() {
		out = append(out, call{(last+1)<<8 | uint64(kindFinalize), uint64(root), uint64(root)})
	}
	return out
}

// compare holds a member's calls against what others have reported.
func (w *watch) compare(ctx uint64, world int, calls []call) {
	w.mu.Lock()
	x := w.comms[ctx]
	if x == nil { // freed here, or made by the others only
		w.mu.Unlock()
		return
	}
	var err error
	for other, theirs := range x.reports {
		if other != world && err == nil {
			err = differ(x.c.fromWorld(world), calls, x.c.fromWorld(other), theirs)
		}
	}
	if x.reports == nil {
		x.reports = map[int][]call{}
	}
	x.reports[world] = calls
	w.mu.Unlock()
	if err != nil {
		x.c.poison(err)
	}
}

// differ compares calls of equal number.
func differ(a int, as []call, b int, bs []call) error {
	for _, x := range as {
		for _, y := range bs {
			if x.seq() == y.seq() && x != y {
				return fmt.Errorf("%w: rank %d is in %v, rank %d in %v", ErrMismatch, a, x, b, y)
			}
		}
	}
	return nil
}

// verdict tells all members why their communicator is about to be poisoned.
func (w *watch) verdict(c *core, cause error) {
	p := binary.NativeEndian.AppendUint64(nil, w.born)
	p = binary.NativeEndian.AppendUint64(p, c.ctx)
	class := 0
	for class < len(classes) && !errors.Is(cause, classes[class]) {
		class++
	}
	text := cause.Error()
	p = append(append(p, byte(class)), text...)
	w.mu.Lock()
	w.verdicts[c.ctx] = passedOn(class, text)
	w.mu.Unlock()
	// A rank that cannot be told is dead or about to be, then the job's end will tell
	// the others, or it takes nothing. A caller whose deadline has passed waits for no
	// such rank, which gets to know the class of the error all the same; but for as long
	// as the watch does that has begun to tell another cause.
	within := sayWithin
	if errors.Is(cause, ErrDeadline) {
		within = sayBriefly
	}
	var told sync.WaitGroup
	for _, r := range c.members() {
		told.Go(func() { _ = w.say(r, tagVerdict, &basics[reflect.Uint8], p, within) })
	}
	told.Wait()
}

func passedOn(class int, text string) error {
	err := &verdictError{text: text, is: []error{ErrPoisoned}}
	if class < len(classes) {
		err.is = append(err.is, classes[class])
	}
	return err
}

// verdictError is a failure of a collective, as seen on another rank or later.
type verdictError struct {
	text string
	is   []error
}

func (e *verdictError) Error() string   { return "communicator failed: " + e.text }
func (e *verdictError) Unwrap() []error { return e.is }

// say sends to a rank of the world, if it takes it in time.
func (w *watch) say(world int, tag int32, t *rpi.Type, p []byte, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	v := rpi.NewView(ctx, w.env.eng)
	defer v.Stop()
	return w.env.eng.Send(world, watchContext, tag, t, p, rpi.Standard, v)
}

// drain hears what has arrived. It probes and then receives, under a lock of its
// own, rather than with a matched probe: a message taken out of the queue and
// not yet received would be in the way of a checkpoint that begins in between.
func (w *watch) drain() {
	w.draining.Lock()
	defer w.draining.Unlock()
	for {
		s, ok, err := w.env.eng.Iprobe(rpi.AnySource, watchContext, rpi.AnyTag)
		if err != nil || !ok {
			return
		}
		p := make([]byte, s.Bytes)
		t := &basics[reflect.Uint8]
		if s.Tag == tagReport {
			t = &basics[reflect.Uint64]
		}
		s, err = w.env.eng.Recv(s.Source, watchContext, int32(s.Tag), t, p, nil)
		if err != nil || len(p) < 16 || binary.NativeEndian.Uint64(p) != w.born {
			continue
		}
		w.hear(s, p[8:])
	}
}

func (w *watch) hear(s rpi.Status, p []byte) {
	if s.Tag == tagVerdict {
		if len(p) > 8 {
			w.mu.Lock()
			w.verdicts[binary.NativeEndian.Uint64(p)] = passedOn(int(p[8]), string(p[9:]))
			w.mu.Unlock()
		}
		return
	}
	ctx := binary.NativeEndian.Uint64(p)
	var calls []call
	for p = p[8:]; len(p) >= 24; p = p[24:] {
		calls = append(calls, call{binary.NativeEndian.Uint64(p), binary.NativeEndian.Uint64(p[8:]), binary.NativeEndian.Uint64(p[16:])})
	}
	w.compare(ctx, s.Source, calls)
}

// explain adds to ErrPoisoned why, if a verdict has come.
func (e *env) explain(ctx uint64, err error) error {
	e.watch.drain()
	e.watch.mu.Lock()
	defer e.watch.mu.Unlock()
	if v := e.watch.verdicts[ctx]; v != nil {
		return v
	}
	return err
}
