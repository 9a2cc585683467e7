package mpi

import (
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// The watch finds collectives that would hang because the ranks disagree: for example, two ranks that each take
// the other for the root. It looks at the communicators twice a second. The calls themselves pay a few stores
// for it.
//
// A member reports to the first rank of the communicator when one of these holds:
//
//   - It was blocked in the same call at two looks, or made no call after a Dup, which waits for nobody.
//   - One of these holds on a communicator made of this one.
//   - Its call was refused for its arguments, or as it had freed the communicator.
//   - It was in Finalize at two looks. That concerns communicators that it has freed, too: the last of them are kept.
//
// That is rank 0; of an intercommunicator, rank 0 of the group that is lower in the world. It compares the reports with
// each other and with its own calls. If two differ about one call, it sends a verdict to all members, and poisons
// the communicator. If that call makes a communicator, all communicators made of this one are poisoned, too: some
// ranks wait there for others that do not know of it. News of those may be the first: who gets them
// fails the communicator that the ranks disagree about as well, before the program goes on.
//
// Reports and verdicts travel in a context of their own. Each look receives all that has arrived, so none stays
// behind. Portable images leave them out: they are of the incarnation that the image ends.
//
//	report   tag 0, u64s: incarnation (born), context, then (what, root, bytes) of the calls begun last
//	verdict  tag 1, bytes: incarnation u64, context u64, origin u64, class u8, text
//
// The origin is the context of the communicator that the ranks disagree about: another one if that communicator is
// poisoned because it was made of it.
type watch struct {
	env  *env
	born uint64 // incarnation in which the program began; the same on all ranks

	mu       sync.Mutex
	comms    map[uint64]*watched
	freed    []uint64            // those of comms that were freed
	early    []earlyReport       // of communicators that this rank has not made yet, or has freed long ago
	verdicts map[uint64]*verdict // why a communicator was poisoned
	started  bool
	ended    bool // the last look was in Finalize
	quit     chan struct{}
	done     chan struct{}

	draining  sync.Mutex
	farewells farewells
	told      map[inquiry]*inquired // what other ranks have answered, see inquiry.go
}

// watched is a communicator, with what this rank has reported of it, and on its first rank what others have reported.
type watched struct {
	c       *core
	seen    uint64         // call in which others might have waited at the last look
	told    uint64         // call that was reported
	refused uint64         // call that was reported as refused
	left    bool           // it was reported that no more calls will come
	reports map[int][]call // by rank of the world
}

// earlyReport is what a member has reported of a communicator that its first rank does not have.
type earlyReport struct {
	ctx   uint64
	world int
	calls []call
}

const (
	earlyKept = 256 // early reports; the oldest are most likely of communicators that were freed
	freedKept = 64  // communicators that were freed; others may wait there for calls that this rank will not make
)

var (
	watchEvery = 500 * time.Millisecond // less in tests
	sayWithin  = 2 * time.Second        // how long say waits for a rank that does not take its message; more in tests
)

const (
	sayBriefly = 50 * time.Millisecond
	tagReport  = 0
	tagVerdict = 1
)

var watchContext = contextOf(0, 0, "watch")

// classes are the errors that a verdict can carry to other ranks. ErrDeadline becomes ErrGaveUp there.
var classes = []error{errMade, ErrMismatch, ErrPeerFailed, ErrDeadline, ErrTruncate, ErrType, ErrOp}

func (w *watch) init(e *env) {
	// A process restored from a native image goes on with its calls, so verdicts of an earlier incarnation are
	// still true. A process that begins anew from a portable image must not believe verdicts that the image
	// holds.
	w.env, w.born = e, e.job.Incarnation()
	w.comms = map[uint64]*watched{}
	w.verdicts = map[uint64]*verdict{}
	e.job.RegisterPassing(watchContext, "the watch over collectives")
	e.job.RegisterContext(accountContext, "the comparison of calls in Finalize")
}

// add begins to look at a communicator.
func (w *watch) add(c *core) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.comms[c.ctx] = &watched{c: c}
}

// remove forgets a communicator that was freed, but not yet the last of them. One that has failed it forgets
// at once, as all are told of that.
func (w *watch) remove(c *core, failed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.comms[c.ctx]
	if x == nil {
		return
	}
	delete(w.verdicts, c.ctx)
	if failed && c.coll.refused.Load() == x.refused {
		delete(w.comms, c.ctx)
		return
	}
	if w.freed = append(w.freed, c.ctx); len(w.freed) <= freedKept {
		return
	}
	if i := slices.IndexFunc(w.freed, func(ctx uint64) bool { return w.comms[ctx].settled() }); i >= 0 {
		delete(w.comms, w.freed[i])
		delete(w.verdicts, w.freed[i])
		w.freed = slices.Delete(w.freed, i, i+1)
	}
}

// settled reports whether those who wait in a call that was refused here are told. The next look does that, or the first
// rank once they have reported.
func (x *watched) settled() bool {
	refused := x.c.coll.refused.Load()
	return refused == x.refused && (refused == 0 || !x.c.leads() || x.reports != nil)
}

// cores returns the rank's communicators.
func (w *watch) cores() []*core {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*core
	for _, x := range w.comms {
		if !x.c.freed.Load() { // not yet removed, see remove
			all = append(all, x.c)
		}
	}
	return all
}

// start begins the looks, at the first collective among several ranks.
func (w *watch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return
	}
	w.started, w.quit, w.done = true, make(chan struct{}), make(chan struct{})
	go w.run(w.quit)
}

// stop ends the watch and waits for it.
func (w *watch) stop() {
	w.mu.Lock()
	quit := w.quit
	w.started, w.quit = true, nil // for good
	w.mu.Unlock()
	if quit != nil {
		close(quit)
		<-w.done
	}
}

func (w *watch) run(quit <-chan struct{}) {
	defer close(w.done)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
			w.look()
		}
	}
}

// look reports calls that have not moved since the last look, and receives what others report.
func (w *watch) look() {
	w.mu.Lock()
	var stuck []*watched
	due := w.made()
	ends := w.ended
	w.ended = w.env.ended.Load()
	listed, above := map[*watched]bool{}, map[*watched]bool{}
	add := func(x *watched) {
		if !listed[x] {
			listed[x] = true
			stuck = append(stuck, x)
		}
	}
	for _, x := range w.comms {
		seq := x.c.coll.waited()
		refused := x.c.coll.refused.Load()
		blocked := seq != 0 && seq == x.seen && seq != x.told
		if blocked {
			x.told = seq
		}
		leaves := ends && !x.left
		x.left = x.left || leaves
		if blocked || leaves || refused != x.refused {
			add(x)
		}
		for p := w.comms[x.c.from]; blocked && p != nil && !above[p]; p = w.comms[p.c.from] {
			above[p] = true // and so are those that it was made of
			add(p)
		}
		x.refused = refused
		x.seen = seq
	}
	w.mu.Unlock()
	for _, r := range due {
		w.compare(r.ctx, r.world, r.calls)
	}
	for _, x := range stuck {
		if err := w.report(x.c); errors.Is(err, engine.ErrDeadline) {
			w.mu.Lock()
			x.told, x.refused, x.left = 0, 0, false // report again: the time may have passed while this process was an image
			w.mu.Unlock()
		}
	}
	w.drain()
	w.farewell()
}

// made takes the early reports whose communicators were made meanwhile.
func (w *watch) made() (due []earlyReport) {
	left := w.early[:0]
	for _, r := range w.early {
		if w.comms[r.ctx] != nil {
			due = append(due, r)
		} else {
			left = append(left, r)
		}
	}
	clear(w.early[len(left):])
	w.early = left
	return due
}

// report tells the first rank of the communicator which calls this rank began last.
func (w *watch) report(c *core) error {
	calls := c.recent()
	if c.leads() {
		w.compare(c.ctx, w.env.job.Rank, calls)
		return nil
	}
	words := []uint64{w.born, c.ctx}
	for _, x := range calls {
		words = append(words, x.what, x.root, x.bytes)
	}
	return w.say(c.first(), tagReport, &basics[reflect.Uint64], bytesOf(words), sayWithin)
}

// recent returns copies of the calls begun last. Whether more can come is read before them: the program goes on meanwhile, and the call
// after the last one would else be taken for its end.
func (c *core) recent() []call {
	var out []call
	freed, ended := c.freed.Load(), c.env.ended.Load()
	last := c.coll.word.Load() >> 1
	for i := range c.coll.recent {
		if x, ok := c.coll.recent[i].get(last); ok {
			out = append(out, c.agreed(x))
		}
	}
	none, why := int64(noRoot), int64(noRoot)
	if freed {
		why = freedBytes
	} else if !ended {
		return out
	}
	return append(out, call{(last+1)<<8 | uint64(kindFinalize), uint64(none), uint64(why)})
}

// compare compares a member's calls with those that others have reported.
func (w *watch) compare(ctx uint64, world int, calls []call) {
	w.mu.Lock()
	x := w.comms[ctx]
	if x == nil { // freed here, not made yet, or made by other ranks only
		w.early = append(w.early[max(0, len(w.early)-earlyKept+1):], earlyReport{ctx, world, calls})
		w.mu.Unlock()
		return
	}
	var err error
	if me := w.env.job.Rank; world != me {
		err = x.c.differ(world, calls, me, x.c.recent())
	}
	for other, theirs := range x.reports {
		if other != world && err == nil {
			err = x.c.differ(world, calls, other, theirs)
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
	if errors.Is(err, errMade) {
		w.poisonBelow(ctx, err.Error())
	}
}

// poisonBelow poisons all communicators made of one whose ranks disagree about a call that makes a communicator.
func (w *watch) poisonBelow(origin uint64, text string) {
	for _, c := range w.below(origin) {
		c.poison(&verdict{text: text, is: []error{errMade}, origin: origin})
	}
}

// below returns the communicators made of one, and those made of them.
func (w *watch) below(ctx uint64) (below []*core) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.comms {
		for p := x; p != nil; p = w.comms[p.c.from] {
			if p.c.from == ctx {
				below = append(below, x.c)
				break
			}
		}
	}
	return below
}

// conclude notes why a communicator has failed.
func (w *watch) conclude(ctx, origin uint64, class int, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.verdicts[ctx] == nil {
		w.verdicts[ctx] = passedOn(origin, class, text)
	}
}

// tell returns the verdict on a communicator, or nil if there is none. It notes that the program now knows of
// the failure.
func (w *watch) tell(ctx uint64) *verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.verdicts[ctx]
	if v != nil {
		v.told = true
	}
	return v
}

// untold returns a disagreement that the program does not know of, or nil. The program knows of a call whose
// arguments were wrong here.
func (w *watch) untold() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ctx, v := range w.verdicts {
		if x := w.comms[ctx]; x != nil && !x.c.side && !v.told && x.c.coll.refused.Load() == 0 && errors.Is(v, ErrMismatch) {
			return v
		}
	}
	return nil
}

// verdict tells all members why their communicator is about to be poisoned.
func (w *watch) verdict(c *core, cause error) {
	p := binary.NativeEndian.AppendUint64(nil, w.born)
	p = binary.NativeEndian.AppendUint64(p, c.ctx)
	origin, class := c.ctx, 0
	if v := (*verdict)(nil); errors.As(cause, &v) && errors.Is(v, errMade) {
		origin = v.origin
	}
	p = binary.NativeEndian.AppendUint64(p, origin)
	for class < len(classes) && !errors.Is(cause, classes[class]) {
		class++
	}
	text := cause.Error()
	p = append(append(p, byte(class)), text...)
	w.conclude(c.ctx, origin, class, text)
	// A rank that cannot be told has died, is about to die, or takes nothing. If it dies, the end of the job
	// tells the others. A caller whose deadline has passed waits for no such rank: that rank still learns the
	// class of the error. But it does wait while the watch tells another cause.
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

// passedOn is a failure of a collective as another rank sees it, or as this rank sees it later.
func passedOn(origin uint64, class int, text string) *verdict {
	v := &verdict{text: "communicator failed: " + text, is: []error{ErrPoisoned}, origin: origin}
	switch {
	case class >= len(classes):
	case classes[class] == ErrDeadline: // the deadline of another rank, or of an earlier call
		v.is = append(v.is, ErrGaveUp)
	default:
		v.is = append(v.is, classes[class])
	}
	return v
}

// verdict is an error that another rank has told, or that is known from before.
type verdict struct {
	text   string
	is     []error
	origin uint64 // see watch
	told   bool   // the program has been given it
}

func (e *verdict) Error() string   { return e.text }
func (e *verdict) Unwrap() []error { return e.is }

// say sends to a rank of the world. It fails if that rank does not take the message in time.
func (w *watch) say(world int, tag int32, t *engine.Type, p []byte, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	v := engine.NewView(ctx, w.env.eng)
	defer v.Stop()
	return w.env.eng.Send(world, watchContext, tag, t, p, engine.Standard, v)
}

// drain receives what has arrived. It probes and then receives, under a lock of its own. A matched probe would
// not do: a message taken out of the queue and not yet received would be in the way of a checkpoint that begins
// in between.
func (w *watch) drain() {
	w.draining.Lock()
	defer w.draining.Unlock()
	for {
		s, ok, err := w.env.eng.Iprobe(engine.AnySource, watchContext, engine.AnyTag)
		if err != nil || !ok {
			return
		}
		p := make([]byte, s.Bytes)
		t := &basics[reflect.Uint8]
		if s.Tag == tagReport {
			t = &basics[reflect.Uint64]
		}
		s, err = w.env.eng.Recv(s.Source, watchContext, int32(s.Tag), t, p, nil)
		if err != nil || len(p) < 8 || binary.NativeEndian.Uint64(p) != w.born {
			continue
		}
		if s.Tag == tagQuestion || s.Tag == tagAnswer {
			w.farewells.hear(s)
			continue
		}
		if len(p) < 16 {
			continue
		}
		switch s.Tag {
		case tagInquiry:
			w.answerInquiry(s.Source, binary.NativeEndian.Uint64(p[8:]))
			continue
		case tagInquired:
			w.hearInquired(s.Source, p)
			continue
		}
		w.hear(s, p[8:])
	}
}

func (w *watch) hear(s engine.Status, p []byte) {
	if s.Tag == tagVerdict {
		if len(p) > 16 {
			ctx, origin, class, text := binary.NativeEndian.Uint64(p), binary.NativeEndian.Uint64(p[8:]), int(p[16]), string(p[17:])
			w.conclude(ctx, origin, class, text)
			if class < len(classes) && classes[class] == errMade {
				w.poisonBelow(ctx, text)
			}
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

// explain adds the verdict, if there is one, to ErrPoisoned.
func (e *env) explain(ctx uint64, err error) error {
	e.watch.drain()
	v := e.watch.tell(ctx)
	if v == nil {
		return err
	}
	if v.origin != ctx {
		e.watch.failFrom(v)
	}
	return v
}

// failFrom makes the communicator that the ranks disagree about fail on this rank, with all that were made of it.
func (w *watch) failFrom(v *verdict) {
	cores := w.below(v.origin)
	w.mu.Lock()
	if x := w.comms[v.origin]; x != nil {
		cores = append(cores, x.c)
	}
	w.mu.Unlock()
	for _, c := range cores {
		c.spread(v)
	}
}
