package self

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Copy is the state of all registered variables at one moment.
type Copy struct {
	reg      *Registry
	arena    *arena
	sections []copied
	bytes    uint64
	swap     bool
}

// copied is one section in the arena.
type copied struct {
	name, kind, typ string
	data            []byte
	same            bool // Replicated
}

// pageAlign is where large sections begin in the arena, so that they can be
// written without another copy.
const pageAlign = 4096

// piece is one copy to be made at memory speed.
type piece struct {
	dst []byte
	src unsafe.Pointer
	p   *plan
}

// Prepare gets the memory that a Copy of the present variables needs. Then Copy need not wait until the kernel
// has cleared it. Like Copy it reads the variables, so the program must stand at a Point. The call is optional.
func (r *Registry) Prepare() error {
	streams, err := r.encode()
	if err != nil {
		return err
	}
	_, n := layout(streams)
	a, err := r.takeArena(n)
	if err != nil {
		return err
	}
	err = a.populate(n)
	r.giveArena(a)
	return err
}

// Copy copies all variables. This is the pause that the program sees. Nothing may write to the variables
// meanwhile. Several goroutines copy large data of fixed size at the speed of memory. Everything else is
// encoded. The copy holds memory until Release.
func (r *Registry) Copy() (*Copy, error) {
	streams, err := r.encode()
	if err != nil {
		return nil, err
	}
	offsets, n := layout(streams)
	a, err := r.takeArena(n)
	if err != nil {
		return nil, err
	}
	c := &Copy{reg: r, arena: a, swap: r.swap}
	var pieces []piece
	for i, s := range streams {
		data := a.mem[offsets[i]:][:s.size()]
		pieces = append(pieces, s.lay(data)...)
		c.sections = append(c.sections, copied{s.name, s.kind, s.typ, data[:len(data):len(data)], s.same})
		c.bytes += uint64(len(data))
	}
	copyPieces(pieces, c.swap)
	return c, nil
}

// varStream is the stream of one variable.
type varStream struct {
	stream
	name, kind, typ string
	same            bool
}

func (r *Registry) encode() ([]*varStream, error) {
	r.mu.Lock()
	vars := r.vars[:len(r.vars):len(r.vars)]
	r.mu.Unlock()
	order := byteOrder(image.HostBigEndian != r.swap)
	var streams []*varStream
	for _, v := range vars {
		s := &varStream{name: v.name, kind: KindValue, typ: v.typ, same: v.same}
		s.order, s.swap, s.tidy = order, r.swap, v.same
		if h := sliceOf(v); h != nil {
			if v.win != nil && h.n != v.win.count*v.win.row() {
				return nil, fmt.Errorf("variable %q: %d elements now, and it was registered with %v", v.name, h.n, v.win)
			}
			s.kind = KindArray
			s.fixed(v.plan.elem, h.data, h.n*int(v.plan.elem.size))
		} else if err := s.value(v.plan, v.ptr); err != nil {
			return nil, fmt.Errorf("variable %q: %w", v.name, err)
		}
		streams = append(streams, s)
		if v.win != nil {
			streams = append(streams, &varStream{name: v.name, kind: KindWindow, stream: stream{buf: v.win.encode(order)}})
		}
	}
	return streams, nil
}

// sliceOf is a variable that is saved as a bare array, nil if it is another.
func sliceOf(v variable) *sliceHead {
	if !isArray(v.plan) {
		return nil
	}
	h := sliceAt(v)
	if h.isNil && v.win == nil {
		return nil
	}
	return &h
}

// isArray tells whether variables of type p are saved as a bare array: slices
// of something fixed that has a size.
func isArray(p *plan) bool {
	return p.op == opSlice && p.elem.op == opFixed && p.elem.size > 0
}

// layout places the streams; n is the memory they take together.
func layout(streams []*varStream) (offsets []int, n int) {
	for _, s := range streams {
		size := s.size()
		align := 16
		if size >= bigPiece {
			align = pageAlign
		}
		n = (n + align - 1) &^ (align - 1)
		offsets = append(offsets, n)
		n += size
	}
	return offsets, n
}

// lay puts the small bytes of the stream in their places, and returns the pieces that go between them.
func (s *stream) lay(dst []byte) []piece {
	var pieces []piece
	from := 0
	for _, c := range s.cuts {
		dst = dst[copy(dst, s.buf[from:c.at]):]
		from = c.at
		pieces = append(pieces, piece{dst[:c.n], c.src, c.p})
		dst = dst[c.n:]
	}
	copy(dst, s.buf[from:])
	return pieces
}

// copyPieces copies with as many goroutines as processors. Each takes the next stretch of at most stretch
// bytes.
func copyPieces(pieces []piece, swap bool) {
	const stretch = 4 << 20
	var parts []piece
	for _, p := range pieces {
		// A stretch must hold whole elements.
		step := max(1, stretch/int(p.p.size)) * int(p.p.size)
		for len(p.dst) > 0 {
			n := min(step, len(p.dst))
			parts = append(parts, piece{p.dst[:n], p.src, p.p})
			if p.dst = p.dst[n:]; len(p.dst) > 0 {
				p.src = unsafe.Add(p.src, n)
			}
		}
	}
	var next atomic.Int64
	run := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(parts) {
				return
			}
			p := parts[i]
			copy(p.dst, unsafe.Slice((*byte)(p.src), len(p.dst)))
			if swap {
				swapFixed(p.p, p.dst)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) - 1 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			run()
		}()
	}
	run()
	wg.Wait()
}

func (r *Registry) takeArena(n int) (*arena, error) {
	r.mu.Lock()
	a := r.spare
	r.spare = nil
	r.mu.Unlock()
	if a != nil && a.fits(n) {
		return a, nil
	}
	if a != nil {
		a.unmap()
	}
	return newArena(n)
}

func (r *Registry) giveArena(a *arena) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spare != nil {
		r.spare.unmap()
	}
	r.spare = a
}

// Bytes is what the copy holds, in bytes.
func (c *Copy) Bytes() uint64 { return c.bytes }

// Write writes an image with the copy and the messages. It returns when the image is on the disk. The
// program may compute meanwhile. msgs and their data must not change until then. Write fills in meta's Format,
// Backend and BigEndian. It calls progress, if not nil, with the bytes done so far, one call at a time. Closing
// cancel, if not nil, makes it give up with image.ErrCanceled. After an error nothing is left in the folder.
func (c *Copy) Write(to image.Target, meta image.Meta, msgs []engine.Saved, opt image.Options, progress func(uint64), cancel <-chan struct{}) (image.Summary, error) {
	meta.Format, meta.Backend, meta.BigEndian = c.format(), Backend, image.HostBigEndian != c.swap
	opt.Progress, opt.Cancel = progress, cancel
	w, err := to.Create(meta, opt)
	if err != nil {
		return image.Summary{}, err
	}
	for _, s := range c.sections {
		err := w.Section(s.name, s.kind, s.typ, s.data)
		if err == nil && s.same {
			err = w.Section(s.name, KindDigest, "", digestOf(s.typ, s.data))
		}
		if err != nil {
			w.Abort()
			return image.Summary{}, err
		}
	}
	if err := w.Section("", KindMessages, "", encodeMessages(msgs, byteOrder(meta.BigEndian), c.swap)); err != nil {
		w.Abort()
		return image.Summary{}, err
	}
	return w.Commit()
}

// format is the oldest one that can hold the copy.
func (c *Copy) format() int {
	format := formatAlone
	for _, s := range c.sections {
		switch {
		case s.kind == KindWindow && len(s.data) == blockSize:
			return Format
		case s.same || s.kind == KindWindow:
			format = formatRows
		}
	}
	return format
}

// digestOf tells the values of a variable on several ranks apart.
func digestOf(typ string, data []byte) []byte {
	h := sha256.New()
	h.Write(append([]byte(typ), 0))
	h.Write(data)
	return h.Sum(nil)
}

// Release gives up the copy's memory. It must not be called while Write runs.
func (c *Copy) Release() {
	if c.arena == nil {
		return
	}
	a := c.arena
	c.arena, c.sections = nil, nil
	a.release()
	c.reg.giveArena(a)
}
