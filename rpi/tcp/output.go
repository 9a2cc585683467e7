package tcp

import "github.com/gorun-mpi/gorun/rpi"

const (
	// smallMax is the largest payload that is copied. Below it the copy is cheaper than a second vector. A
	// larger one is written from the user's memory.
	smallMax = 8 << 10
	// writeMax bounds one write, so that upcalls come in between. It is larger than a frame. Over loopback, 1
	// MB took 1.12 times as long in writes of 256 KB, and 1.4 times in writes of 128 KB. 256 KB in halves took
	// 2.6 times as long.
	writeMax = 2 << 20
	// heldMax bounds the frames of one peer that wait in the user's memory. With this many the socket does not
	// run dry between two upcalls, and a small message does not wait long behind them.
	heldMax = 2
	// batchMax bounds the copied bytes that wait for one peer, unless a single
	// frame is larger.
	batchMax = 64 << 10
	// outFirst is the first size of an output buffer; it grows on demand.
	outFirst = 4 << 10
)

// output holds, in order, what a connection has accepted and not yet written. Small frames and all headers are
// in buf. A held payload stays in its owner's memory, and its place between them is noted:
//
//	buf   r........at0........at1......w
//	held           p0         p1
//
// leaves as buf[r:at0] p0 buf[at0:at1] p1 buf[at1:w].
type output struct {
	buf  []byte
	r, w int
	held [heldMax]held // a ring
	head int
	n    int
}

type held struct {
	at  int    // goes out after buf[:at]
	p   []byte // what is left of the payload
	ref rpi.Ref
}

func (o *output) at(i int) *held { return &o.held[(o.head+i)%heldMax] }

// roomy reports whether a caller that was answered Full should be told to go on.
func (o *output) roomy() bool { return o.n <= heldMax/2 && o.w-o.r <= batchMax/2 }

// empty reports whether everything has left.
func (o *output) empty() bool { return o.r == o.w && o.n == 0 }

// fits reports whether a frame of n bytes may be copied behind the pending ones. A frame larger than the bound
// goes alone.
func (o *output) fits(n int) bool {
	return o.w-o.r+n <= batchMax || o.empty()
}

// reserve makes room for n more bytes in buf.
func (o *output) reserve(n int) {
	if len(o.buf)-o.w >= n {
		return
	}
	pending := o.w - o.r
	if len(o.buf)-pending >= n && o.r >= pending { // so each byte moves once at most
		o.move(o.buf)
		return
	}
	size := max(2*len(o.buf), outFirst)
	for size < pending+n {
		size *= 2
	}
	o.move(make([]byte, size))
}

// move moves pending output to the front of to.
func (o *output) move(to []byte) {
	copy(to, o.buf[o.r:o.w])
	for i := range o.n {
		o.at(i).at -= o.r
	}
	o.buf, o.r, o.w = to, 0, o.w-o.r
}

// header appends an encoded header; room is reserved.
func (o *output) header(h *rpi.Header) {
	h.Encode(o.buf[o.w:])
	o.w += rpi.HeaderSize
}

// bytes appends a copy of p; room is reserved.
func (o *output) bytes(p []byte) { o.w += copy(o.buf[o.w:], p) }

// hold appends a payload that stays where it is.
func (o *output) hold(p []byte, ref rpi.Ref) {
	o.n++
	*o.at(o.n - 1) = held{at: o.w, p: p, ref: ref}
}

// absorb copies the only held payload, which nothing follows, into buf.
func (o *output) absorb() {
	p := o.at(0).p
	*o.at(0) = held{}
	o.n = 0
	o.reserve(len(p))
	o.bytes(p)
}

// gather fills v with what goes out next, at most writeMax bytes, and returns how many.
func (o *output) gather(v *vector) int {
	v.reset()
	left, pos := writeMax, o.r
	add := func(p []byte) {
		p = p[:min(len(p), left)]
		if len(p) > 0 {
			v.add(p)
			left -= len(p)
		}
	}
	for i := range o.n {
		h := o.at(i)
		add(o.buf[pos:h.at])
		add(h.p)
		pos = h.at
	}
	add(o.buf[pos:o.w])
	return writeMax - left
}

// advance removes the n bytes that were written. It returns the frames whose payload has left completely.
func (o *output) advance(n int, done []rpi.Ref) []rpi.Ref {
	for o.n > 0 {
		h := o.at(0)
		k := min(n, h.at-o.r)
		o.r, n = o.r+k, n-k
		k = min(n, len(h.p))
		h.p, n = h.p[k:], n-k
		if o.r < h.at || len(h.p) > 0 {
			return done
		}
		done = append(done, h.ref)
		*h = held{}
		o.head, o.n = (o.head+1)%heldMax, o.n-1
	}
	o.r += n
	if o.r == o.w {
		o.r, o.w = 0, 0
	}
	return done
}
