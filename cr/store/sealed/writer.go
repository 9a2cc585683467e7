package sealed

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gorun-mpi/gorun/cr/store"
)

// runBlocks is how many neighbouring blocks are written at once.
const runBlocks = 16

// writer seals what is written, block by block.
type writer struct {
	w   store.Writer
	box *box

	mu     sync.Mutex
	open   map[int64]*block // that are not whole yet, and the highest
	sealed set              // that were, or are being
	top    int64            // the highest that was written to
	closed bool
}

// block is one that is being filled.
type block struct {
	p []byte
	n int // bytes written
}

// job is a block that is to be sealed.
type job struct {
	i int64
	p []byte
}

func newWriter(w store.Writer, b *box) (*writer, error) {
	if _, err := w.WriteAt(b.head[:], 0); err != nil {
		w.Abort()
		return nil, err
	}
	return &writer{w: w, box: b, open: map[int64]*block{}, top: -1}, nil
}

// WriteAt seals the blocks that are whole now, and keeps the rest.
func (w *writer) WriteAt(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	jobs, err := w.take(p, off)
	if err == nil {
		err = w.put(jobs)
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// take cuts p into blocks. It returns those that are whole; what it keeps is copied.
func (w *writer) take(p []byte, off int64) (jobs []job, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, store.ErrClosed
	case off < 0:
		return nil, fmt.Errorf("offset %d", off)
	}
	if last := (off + int64(len(p)) - 1) / blockSize; last > w.top {
		before := w.top
		w.top = last
		if b := w.open[before]; b != nil && b.n >= blockSize {
			jobs = append(jobs, w.whole(before, b.p))
		}
	}
	for len(p) > 0 {
		i, at := off/blockSize, int(off%blockSize)
		part := p[:min(len(p), blockSize-at)]
		p, off = p[len(part):], off+int64(len(part))
		if w.sealed.has(i) {
			return nil, fmt.Errorf("block %d was written twice", i)
		}
		if len(part) == blockSize && i < w.top && w.open[i] == nil {
			jobs = append(jobs, w.whole(i, part))
			continue
		}
		b := w.open[i]
		if b == nil {
			b = &block{p: make([]byte, blockSize)}
			w.open[i] = b
		}
		b.n += copy(b.p[at:], part)
		if b.n >= blockSize && i < w.top {
			jobs = append(jobs, w.whole(i, b.p))
		}
	}
	return jobs, nil
}

// whole notes that a block is sealed now, once and for all.
func (w *writer) whole(i int64, p []byte) job {
	delete(w.open, i)
	w.sealed.add(i)
	return job{i, p}
}

// buffers are for runs of sealed blocks.
var buffers = sync.Pool{New: func() any { p := make([]byte, 0, runBlocks*fullSize); return &p }}

// put seals blocks, and writes neighbours together.
func (w *writer) put(jobs []job) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for len(jobs) > 0 {
		first, out := jobs[0].i, (*buf)[:0]
		n := 0
		for ; n < len(jobs) && n < runBlocks && jobs[n].i == first+int64(n); n++ {
			out = w.box.seal(out, jobs[n].i, jobs[n].p)
		}
		if _, err := w.w.WriteAt(out, headSize+first*fullSize); err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	return nil
}

// Commit seals what is left, and the size.
func (w *writer) Commit(size int64) error {
	w.mu.Lock()
	again := w.closed
	w.closed = true
	w.mu.Unlock()
	if again {
		return store.ErrClosed
	}
	if err := w.finish(size); err != nil {
		return errors.Join(err, w.w.Abort())
	}
	return w.w.Commit(sealedSize(size))
}

func (w *writer) finish(size int64) error {
	if size < 0 || w.sealed.beyond(size/blockSize) {
		return fmt.Errorf("a piece of %d bytes cannot be cut from what is sealed", size)
	}
	for i := range (size + blockSize - 1) / blockSize {
		if w.sealed.has(i) {
			continue
		}
		p := zeros[:]
		if b := w.open[i]; b != nil {
			p = b.p
		}
		if err := w.put([]job{w.whole(i, p[:min(blockSize, size-i*blockSize)])}); err != nil {
			return err
		}
	}
	_, err := w.w.WriteAt(w.box.sealEnd(size), sealedSize(size)-endSize)
	return err
}

// zeros is a block that was not written.
var zeros [blockSize]byte

// Abort gives up.
func (w *writer) Abort() error {
	w.mu.Lock()
	again := w.closed
	w.closed = true
	w.mu.Unlock()
	if again {
		return nil
	}
	return w.w.Abort()
}

// set is a set of blocks.
type set struct{ bits []uint64 }

func (s *set) has(i int64) bool {
	return i/64 < int64(len(s.bits)) && s.bits[i/64]>>(i%64)&1 != 0
}

func (s *set) add(i int64) {
	if need := int(i/64) + 1; need > len(s.bits) {
		s.bits = append(s.bits, make([]uint64, need-len(s.bits))...)
	}
	s.bits[i/64] |= 1 << (i % 64)
}

// beyond reports whether a block from i on is in the set.
func (s *set) beyond(i int64) bool {
	for ; i/64 < int64(len(s.bits)); i++ {
		if s.has(i) {
			return true
		}
	}
	return false
}
