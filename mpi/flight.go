package mpi

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// A collective that goes on while the program computes is a schedule (package schedule) with memory, which the engine
// carries out as a plan. It has its place in the communicator's sequence of calls, as a blocking one has, but
// its messages travel in a context of their own, so neither waits for the other:
//
//	tag    number of the call on the communicator: calls that are under way at the same time do not meet
//	type   hash of what all ranks must agree on: whoever differs is found by the first message
//
// The call of a persistent one is that of ...Init. All its starts use the same tag: a rank starts again only when it
// has ended, and messages between two ranks keep their order.

// Forms of a collective, besides the blocking one. They are part of its kind.
const (
	begun      kind = 1 << 5 // Iallreduce
	persistent kind = 1 << 6 // AllreduceInit
	forms           = begun | persistent
)

// Where the signature is in the ID of a flight's type, below the bit of a layout and above the kind.
const (
	signatureShift = 8
	signatureType  = uint32(0xffff) << signatureShift
)

// flight is a collective that goes on while the program computes.
type flight struct {
	plan  engine.Plan
	c     *Comm
	kind  kind
	root  int
	seq   uint64
	typ   engine.Type // with the signature as its ID
	bytes int
	mine  content
	steps [][]step // by round
	apply func(dst, low, high []byte) error
	held  []*scratch

	pack    func() // what is to be done at each start: copies the program's elements to where they are sent from
	unpack  func() // what is to be done at the end
	foreign bool   // the operator is the program's
}

// step is a schedule.Step in memory.
type step struct {
	combine        bool
	dst, low, high []byte
}

// briefly is how many bytes may be copied and combined with the engine's lock held, by operators of this package.
const briefly = 4 << 10

// take takes the call's place in the sequence. err is what is wrong with its arguments.
func (c *Comm) take(k kind, root int, t *engine.Type, bytes int, op uint8, err error) (*flight, error) {
	f := &flight{c: c, kind: k, root: root}
	if err := f.take(t, bytes, op, err); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *flight) take(t *engine.Type, bytes int, op uint8, err error) error {
	var x *collective
	if f.c.crosses() && f.kind.between() {
		x, err = f.c.cross(f.kind, f.root, t, op, err)
	} else {
		x, err = f.c.begin(f.kind, f.root, t, bytes, op, err)
	}
	if err != nil {
		return err
	}
	f.seq, f.typ = x.seq, *t
	f.mine, f.bytes = content{t, op}, x.bytes
	f.typ.ID = engine.LayoutType | uint32(uint16(x.tag))<<signatureShift | uint32(f.kind) // the tag ends with the signature
	f.c.coll.release(x.seq)
	return nil
}

// note gives the flight the schedule that plan tells.
func (f *flight) note(in, out []byte, plan func(s *schedule.Schedule)) {
	var s schedule.Schedule
	plan(&s)
	f.lay(&s, in, out)
}

// lay gives the schedule its memory.
func (f *flight) lay(s *schedule.Schedule, in, out []byte) {
	size := f.typ.Size
	mem := [][]byte{schedule.In: in, schedule.Out: out}
	for _, k := range s.Rooms {
		tmp := borrow(k * size)
		f.held, mem = append(f.held, tmp), append(mem, tmp.bytes(k*size))
	}
	at := func(x schedule.Span) []byte { return mem[x.Mem][x.Off*size : (x.Off+x.Len)*size] }
	work := 0
	if f.unpack != nil {
		work = len(in) + len(out)
		s.Finish()
	}
	f.steps = make([][]step, len(s.Rounds))
	f.plan.Rounds = make([]engine.Round, len(s.Rounds))
	for i, r := range s.Rounds {
		parts := make([]engine.Part, len(r.Messages))
		for k, m := range r.Messages {
			parts[k] = engine.Part{Peer: f.c.toWorld(m.Peer), Recv: m.Recv, Exact: true,
				Tag: int32(f.seq & MaxTag), Type: &f.typ, Buf: at(m.Span)}
		}
		for _, x := range r.Steps {
			f.steps[i] = append(f.steps[i], step{x.Combine, at(x.Dst), at(x.Low), at(x.High)})
			work += x.Dst.Len * size
		}
		f.plan.Rounds[i] = engine.Round{Parts: parts, Do: len(r.Steps) > 0 || f.unpack != nil && i == len(s.Rounds)-1}
	}
	f.ready(f.do, work)
}

// ready makes the plan one that can begin. do follows its rounds, and handles about so many bytes in all.
func (f *flight) ready(do func(round int) error, work int) {
	f.plan.Ctx, f.plan.What, f.plan.Do, f.plan.Open = f.c.begun, f, do, &f.c.coll.open
	f.plan.Brief, f.plan.Foreign = work <= briefly, f.foreign
	if f.kind&persistent == 0 {
		f.plan.Over = f.release
	}
}

// do carries out the steps of a round.
func (f *flight) do(round int) error {
	for _, x := range f.steps[round] {
		if !x.combine {
			move(x.dst, x.low)
		} else if err := f.apply(x.dst, x.low, x.high); err != nil {
			f.c.poison(f.c.fail(f.name(), err)) // at once: this rank may wait for others before it ends the request
			return err
		}
	}
	if f.unpack != nil && round == len(f.steps)-1 {
		f.unpack()
	}
	return nil
}

// release gives the memory of the call back.
func (f *flight) release() {
	for _, s := range f.held {
		s.giveBack()
	}
	f.held = nil
}

func (f *flight) last() engine.Request { return f.plan.Last() }

// start begins the collective.
func (f *flight) start() (Request, error) {
	eng := f.c.env.eng
	if f.pack != nil {
		if eng.Lives(f.plan.Last()) { // what is packed is being sent
			return Request{}, f.c.fail(f.name(), errActive)
		}
		f.pack()
	}
	r, err := eng.Begin(&f.plan)
	if err != nil {
		return Request{}, f.c.fail(f.name(), err)
	}
	r.Note = uint32(opCollective) | uint32(f.kind)<<noteBits
	root := f.root
	if root == ProcNull { // a Request that names it needs no engine
		root = Undefined
	}
	return Request{r, f.c, int32(root), int32(f.seq & MaxTag)}, nil
}

// launch is start, after take and lay.
func launch(f *flight, err error) (Request, error) {
	if err != nil {
		return Request{}, err
	}
	return f.start()
}

func (f *flight) name() string { return flightName(f.kind, f.root, f.seq) }

// String describes it for whoever asks what a rank waits for.
func (f *flight) String() string { return f.name() + " on " + f.c.path }

func flightName(k kind, root int, seq uint64) string {
	if k.rooted() {
		return fmt.Sprintf("%v(root %d, call %d)", k, root, seq)
	}
	return fmt.Sprintf("%v(call %d)", k, seq)
}

// broken is the error of a collective that has failed after it was begun, for the call that was to end it.
func (r *Request) broken(call string, err error) error {
	k, seq, root := kind(r.r.Note>>noteBits), uint64(r.tag), int(r.peer)
	if root == Undefined {
		root = ProcNull // see start
	}
	name := call + " of " + flightName(k, root, seq)
	if errors.Is(err, ErrRequest) || errors.Is(err, ErrDeadline) {
		return r.c.fail(name, err) // it goes on, or is over long ago
	}
	var part *engine.PartError
	if errors.As(err, &part) {
		peer := r.c.fromWorld(part.Peer)
		switch {
		case errors.Is(err, ErrType), errors.Is(err, ErrTruncate), errors.Is(err, engine.ErrShort):
			err = fmt.Errorf("%w: %s", ErrMismatch, r.c.disagreed(seq, peer, part))
		case part.Recv:
			err = fmt.Errorf("receiving from rank %d: %w", peer, part.Err)
		default:
			err = sending(peer, part.Err)
		}
	}
	x := &collective{c: r.c, eng: r.c.env.eng, seq: seq, kind: k, root: root, bytes: -1}
	return x.broken(name, err)
}

// disagreed says in what a rank's call differs from one that was begun here.
func (c *Comm) disagreed(seq uint64, peer int, part *engine.PartError) string {
	x := &collective{c: c, seq: seq}
	var carries *content
	var t *engine.TypeError
	if f, ok := part.What.(*flight); ok && c.inter == nil && errors.As(part.Err, &t) && t.Got&^signatureType == t.Want.ID&^signatureType {
		x.t, x.op, x.root, x.bytes = f.mine.t, f.mine.op, f.root, f.bytes
		if found, ok := x.ofSignature(uint16(t.Got >> signatureShift)); ok {
			carries = &found
		}
	}
	if text, ok := x.disagreement(peer, carries); ok {
		return text
	}
	return fmt.Sprintf("rank %d has made another call as its call %d, or this one with another root, length, element type or operator", peer, seq)
}

// applies makes a function on bytes of an operator. A panic of the program's operator becomes an error: it happens
// on a goroutine of the library's.
func applies[T any](op Operator[T], own predefined, rank int) func(dst, low, high []byte) error {
	if own != nil {
		return func(dst, low, high []byte) error {
			own.join(dst, low, high)
			return nil
		}
	}
	return func(dst, low, high []byte) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("%w: it has panicked on rank %d: %v", ErrOp, rank, v)
			}
		}()
		join(op, viewOf[T](dst), viewOf[T](low), viewOf[T](high))
		return nil
	}
}

// aliased reports whether a call is in place: the same slice twice. Other slices that share memory are an error.
func aliased(send, recv []byte) (bool, error) {
	if len(send) == len(recv) && unsafe.SliceData(send) == unsafe.SliceData(recv) {
		return len(send) > 0, nil
	}
	return false, apart(send, recv)
}
