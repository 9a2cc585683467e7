package engine

// Request is the handle of an operation in progress: a value that may be copied. The zero Request
// is inactive: waiting for it returns at once. A handle that was waited for is stale. Using it
// returns ErrRequest, and never affects another operation.
type Request struct {
	r   *request
	gen uint32

	// Note belongs to the caller: it is 0 at first, and the engine ignores it.
	Note uint32
}

// Active reports whether the handle was made by an operation. It does not tell
// whether the operation was waited for already.
func (r Request) Active() bool { return r.r != nil }

// phase is where an operation stands.
type phase uint8

const (
	phaseFree       phase = iota
	phaseQueued           // send: the first frame was not accepted yet
	phaseAnnounced        // send: RTS is out
	phaseAck              // send: synchronous, the message is out
	phaseStream           // send: go-ahead received, in the peer's streams
	phaseSent             // send: all frames accepted, some still held by the module
	phasePosted           // receive: in the match table
	phaseMatched          // receive: the payload is arriving
	phaseRendezvous       // receive: go-ahead queued or sent
	phaseComposed         // the request of a plan in progress
	phasePledged          // nothing of the engine's: see Pledge
	phaseDone
)

// request is one operation. Requests are used again. Each keeps its place in Engine.requests.
// Generation and place together name it to modules (Ref) and to the peer (Header.Req).
type request struct {
	// The fields that a send touches if it is over at once.
	next, prev *request // in queue.posted, peer.first or peer.streams; next in the free list
	gen        uint32
	place      uint32
	phase      phase // this and the next six are cleared by one store
	recv       bool
	blocking   bool // made by Send or Recv, not by Isend or Irecv
	sync       bool
	after      after // what follows when it is done
	long       bool  // announced: transfer is in use
	held       int16 // frames that the module still reads from
	err        error
	peer       int32 // as asked for: may be AnySource
	tag        int32 // as asked for: may be AnyTag
	ctx        uint64

	size   int     // of buf in bytes
	w      *waiter // the caller that waits for it
	typ    *Type
	buf    []byte
	seq    uint64 // posted receives
	status Status // receives: Source is the sender once matched
	kin    kin    // see pending
	transfer
}

// transfer holds the fields that only announced messages and plans need. See direct.go for what
// happens below split.
type transfer struct {
	peerReq   uint64 // the peer's name of its side
	want      uint64 // bytes that travel after the go-ahead
	moved     uint64 // receive: bytes that have arrived; send: where the frames have come to
	end       uint64 // send: where the frames end
	written   uint64 // send: where direct writes have come to; >= moved
	split     uint64 // the receiver reads below it; the sender then sends what that left
	pulled    uint64 // receive: read so far; send: where that ended
	mine      uint64 // key of buf, if published
	theirs    uint64 // key of the peer's buffer, if direct
	published bool   // the peer may read or write buf
	direct    bool   // the peer's buffer may be read or written
	pulling   bool   // the receiver reads: Fin was not yet sent, or has not come
	left      bool   // send: from pulled to split is to be sent when the frames have come to end

	plan *Plan    // of a composed request
	own  *message // of a waiting send to this rank itself: the message that stands for it
}

// after says what to do at the end of an operation.
type after uint8

const (
	afterFree    after = 1 << iota // no caller waits: free it
	afterTell                      // close the channel that Notify has made
	afterLeft                      // the caller that has begun it ends it some time later: see Leave
	afterIndexed                   // it leaves Engine.pending
)

// Leave says that the program will not ask for the outcome of a request. Once it is complete
// Pending does not report it any more, and Left never does. The caller that has begun it ends it
// later, as usual.
func (e *Engine) Leave(h Request) {
	e.enter()
	defer e.leave()
	if r, err := h.resolve(); r != nil && err == nil {
		r.after |= afterLeft
	}
}

func (r *request) id() uint64 { return uint64(r.gen)<<32 | uint64(r.place) }

func (r *request) handle() Request { return Request{r: r, gen: r.gen} }

// lookup returns the request that id names, nil if it is over.
func (e *Engine) lookup(id uint64) *request {
	place := id & (1<<32 - 1)
	if place >= uint64(len(e.requests)) {
		return nil
	}
	if r := e.requests[place]; r.id() == id && r.phase != phaseFree {
		return r
	}
	return nil
}

// moreRequests returns a list of new ones.
//
//go:noinline
func (e *Engine) moreRequests() *request {
	slab := make([]request, 32)
	for i := range slab {
		r := &slab[i]
		r.gen, r.place = 1, uint32(len(e.requests))
		if i+1 < len(slab) {
			r.next = &slab[i+1]
		}
		e.requests = append(e.requests, r)
	}
	return &slab[0]
}

func (e *Engine) newRequest(peer int, ctx uint64, tag int32, t *Type, p []byte) *request {
	r := e.freeRequests
	e.takeRequest(r)
	r.is(peer, ctx, tag, t, p)
	return r
}

// takeRequest takes r, the first free request. There is always one. takeRequest and is are short
// enough to be inlined.
func (e *Engine) takeRequest(r *request) {
	if r.next == nil {
		r.next = e.moreRequests()
	}
	e.freeRequests = r.next
}

func (r *request) is(peer int, ctx uint64, tag int32, t *Type, p []byte) {
	r.peer, r.ctx, r.tag, r.size, r.typ, r.buf = int32(peer), ctx, tag, len(p), t, p
}

// was makes the request a send that is over. It sets no pointers, as they would cost more than all
// the rest.
func (r *request) was(peer int, ctx uint64, tag int32, size int) {
	r.peer, r.ctx, r.tag, r.size, r.phase = int32(peer), ctx, tag, size, phaseDone
}

// freeRequest leaves a request as newRequest expects it. Most operations change little of it, and
// clearing all would take longer than the rest of the call.
func (e *Engine) freeRequest(r *request) {
	r.reset(e.freeRequests)
	e.freeRequests = r
}

// reset makes it a free one, before the others that are.
func (r *request) reset(others *request) {
	if r.gen++; r.gen == 0 {
		r.gen = 1
	}
	if r.recv {
		r.status = Status{}
	}
	if r.long {
		r.transfer = transfer{}
	}
	r.phase, r.recv, r.blocking, r.sync, r.after, r.long, r.held = phaseFree, false, false, false, 0, false, 0
	r.err, r.w, r.buf, r.next = nil, nil, nil, others
}

// complete ends an operation and wakes the caller that waits for it.
func (e *Engine) complete(r *request, err error) {
	r.phase = phaseDone
	if err != nil {
		r.err = err
	}
	if r.published {
		e.unpublish(e.partner(r), r)
	}
	if r.after != 0 {
		if r.after&afterIndexed != 0 {
			e.waiting.remove(r)
		}
		if r.after&afterTell != 0 {
			e.tell(r)
		}
		if r.after&afterFree != 0 {
			e.freeRequest(r)
			return
		}
	}
	switch w := r.w; {
	case w == nil:
	case w.plan != nil:
		e.partOver(w.plan, r)
	default:
		e.satisfy(w)
	}
}

// resolve returns the request of a handle; nil for the zero handle.
func (h Request) resolve() (*request, error) {
	if h.r == nil {
		return nil, nil
	}
	if h.r.gen != h.gen || h.r.phase == phaseFree {
		return nil, ErrRequest
	}
	return h.r, nil
}

// requestList is a list linked through its requests.
type requestList struct{ head, tail *request }

func (l *requestList) push(r *request) {
	r.prev, r.next = l.tail, nil
	if l.tail != nil {
		l.tail.next = r
	} else {
		l.head = r
	}
	l.tail = r
}

func (l *requestList) remove(r *request) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.head = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		l.tail = r.prev
	}
	r.next, r.prev = nil, nil
}
