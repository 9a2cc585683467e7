package restore

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// maxChain bounds how many images may build on one another.
const maxChain = 1 << 12

// chain is an image and those it builds on, newest first.
type chain []*layer

// layer is one image of a chain with the pages it names.
type layer struct {
	img     *image.Reader
	state   *state.State
	prefix  string // of the names of sections
	windows map[uint64][]pages.Run
	data    map[uint64]int // pages of data in each window's section
}

// openChain opens the image of the given rank and, as long as one builds on
// another, the images that base returns.
func openChain(from image.Source, rank int, base func(seq int) image.Source) (c chain, err error) {
	defer func() {
		if err != nil {
			c.Close()
			c = nil
		}
	}()
	for {
		img, err := from.Open()
		if err != nil {
			return c, err
		}
		l := &layer{img: img}
		c = append(c, l)
		if err := c.admit(l, rank); err != nil {
			return c, &image.Error{Op: "read", Path: from.String(), Err: err}
		}
		if l.state.Base == 0 {
			return c, nil
		}
		var below image.Source
		if base != nil && len(c) < maxChain {
			below = base(l.state.Base)
		}
		if below == nil {
			return c, &image.Error{Op: "read", Path: from.String(),
				Err: fmt.Errorf("%w: it builds on snapshot %d, which is not at hand", state.ErrImage, l.state.Base)}
		}
		from = below
	}
}

// admit checks that l, the last of the chain, belongs to the one before it.
func (c chain) admit(l *layer, rank int) error {
	m := l.img.Meta()
	if m.Rank != rank {
		return fmt.Errorf("%w: it is of rank %d, not %d", state.ErrImage, m.Rank, rank)
	}
	if len(c) > 1 {
		upper := c[len(c)-2]
		um := upper.img.Meta()
		if m.Job != um.Job || m.Seq != upper.state.Base || m.Seq >= um.Seq {
			return fmt.Errorf("%w: snapshot %d of job %s, where %d of job %s was wanted", state.ErrImage, m.Seq, m.Job, upper.state.Base, um.Job)
		}
	}
	var err error
	if l.state, err = state.Decode(l.img); err != nil {
		return err
	}
	return l.list()
}

// list reads the types of all "pages" sections.
func (l *layer) list() error {
	l.windows, l.data = make(map[uint64][]pages.Run), make(map[uint64]int)
	for _, s := range l.img.Sections() {
		name, ok := strings.CutPrefix(s.Name, l.prefix)
		if s.Kind != state.KindPages || !ok || strings.Contains(name, "/") {
			continue // another process's
		}
		base, err := pages.ParseWindow(name)
		if err != nil {
			return fmt.Errorf("%w: %w", state.ErrImage, err)
		}
		runs, data, err := pages.ParseRuns(s.Type)
		if err == nil && s.Size != uint64(data)*pages.Size {
			err = fmt.Errorf("%d pages are named, %d bytes are there", data, s.Size)
		}
		if err != nil {
			return fmt.Errorf("%w: window %s: %w", state.ErrImage, s.Name, err)
		}
		l.windows[base], l.data[base] = runs, data
	}
	return nil
}

// Close closes all images.
func (c chain) Close() {
	for _, l := range c {
		l.img.Close()
	}
}

// of gives what the image has of a process that descends from the first. It is closed with the chain.
func (c chain) of(m *state.State) (chain, error) {
	l := &layer{img: c[0].img, state: m, prefix: m.Section("")}
	return chain{l}, l.list()
}

// fillPiece is a run of pages with one origin.
type fillPiece struct {
	addr  uint64
	n     int // pages
	layer int // index in the chain; -1: zero; its length: in what the last image builds on
	data  int // pages of data before it in that layer's section
}

// pieces resolves a window through the chain, in the order of addresses. Pages
// that an image calls unchanged and its base does not name are absent.
func (c chain) pieces(window uint64) ([]fillPiece, error) {
	var all []fillPiece
	err := c.resolve(window, 0, 0, pages.PerWindow, &all)
	return all, err
}

// resolve adds what the chain from depth on says of n pages of the window.
func (c chain) resolve(window uint64, depth, first, n int, all *[]fillPiece) error {
	if depth == len(c) {
		if c.down() == 0 {
			return fmt.Errorf("%w: pages at %#x are said to be in an image below the last", state.ErrImage, window)
		}
		*all = append(*all, fillPiece{addr: window + uint64(first)*pages.Size, n: n, layer: depth})
		return nil
	}
	for _, r := range c[depth].windows[window] {
		from, to := max(r.First, first), min(r.First+r.N, first+n)
		if from >= to {
			continue
		}
		p := fillPiece{addr: window + uint64(from)*pages.Size, n: to - from, layer: depth, data: r.Data + from - r.First}
		switch r.Kind {
		case pages.Zero:
			p.layer, p.data = -1, 0
		case pages.Base:
			if err := c.resolve(window, depth+1, from, to-from, all); err != nil {
				return err
			}
			continue
		}
		*all = append(*all, p)
	}
	return nil
}

// windowPlan is what is to be written into one window.
type windowPlan struct {
	base   uint64
	pieces []fillPiece
}

// plan resolves all windows. It refuses pages where the image has no region
// that takes them, and marks the regions that get any.
func (c chain) plan() (windows []windowPlan, filled map[int]int, err error) {
	filled = make(map[int]int) // pages by index of the region
	for base := range c[0].windows {
		pieces, err := c.pieces(base)
		if err != nil {
			return nil, nil, err
		}
		kept := pieces[:0:0]
		for _, p := range pieces {
			if kept, err = place(c[0].state, p, kept, filled); err != nil {
				return nil, nil, err
			}
		}
		if len(kept) > 0 {
			windows = append(windows, windowPlan{base, kept})
		}
	}
	slices.SortFunc(windows, func(a, b windowPlan) int { return cmp.Compare(a.base, b.base) })
	return windows, filled, nil
}

// place cuts a piece at the borders of regions and leaves out zero pages where
// the memory is zero anyway.
func place(s *state.State, p fillPiece, kept []fillPiece, filled map[int]int) ([]fillPiece, error) {
	for p.n > 0 {
		i, ok := regionAt(s, p.addr)
		if !ok || s.Regions[i].Shared || s.Regions[i].Empty {
			return nil, fmt.Errorf("%w: page %#x lies in no region that is filled", state.ErrImage, p.addr)
		}
		q := p
		q.n = int(min(uint64(p.n), (s.Regions[i].End-p.addr)/pages.Size))
		filled[i] += q.n
		if q.layer >= 0 || s.Regions[i].OfFile() {
			kept = append(kept, q)
		}
		p.addr += uint64(q.n) * pages.Size
		p.data += q.n
		p.n -= q.n
	}
	return kept, nil
}

// regionAt finds the region that holds addr.
func regionAt(s *state.State, addr uint64) (int, bool) {
	i, ok := slices.BinarySearchFunc(s.Regions, addr, func(r state.Region, addr uint64) int {
		switch {
		case r.End <= addr:
			return -1
		case r.Start > addr:
			return 1
		}
		return 0
	})
	return i, ok && !s.Regions[i].Kernels()
}

// buffers are for windows: an agent restores many processes, one after another.
var buffers = sync.Pool{New: func() any { return new([pages.Window]byte) }}

// writer puts bytes into the memory of the process being restored.
type writer interface {
	Poke(p []byte, addr uint64) error
}

// looker has a look at what is written, from several goroutines at once.
type looker interface{ look(p []byte, addr uint64) }

// fill writes all windows from several goroutines. Every block is checked
// against its sum before its bytes go anywhere.
func (c chain) fill(to writer, windows []windowPlan, look looker) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	work := func() {
		defer wg.Done()
		buf := buffers.Get().(*[pages.Window]byte)
		defer buffers.Put(buf)
		for {
			i := int(next.Add(1)) - 1
			if i >= len(windows) {
				return
			}
			if err := c.fillWindow(to, &windows[i], buf[:], look); err != nil {
				once.Do(func() { first = err })
				next.Store(int64(len(windows)))
				return
			}
		}
	}
	n := min(runtime.GOMAXPROCS(0), len(windows))
	wg.Add(n)
	for range n {
		go work()
	}
	wg.Wait()
	return first
}

// fillWindow reads the section of each layer that has a part in the window, one
// after the other, so that one buffer is enough.
func (c chain) fillWindow(to writer, w *windowPlan, buf []byte, look looker) error {
	name := fmt.Sprintf("%012x", w.base)
	for layer := -1; layer < len(c); layer++ {
		var data []byte
		for _, p := range w.pieces {
			if p.layer != layer {
				continue
			}
			if data == nil {
				if layer < 0 {
					data = buf
					clear(data)
				} else {
					data = buf[:c[layer].data[w.base]*pages.Size]
					if err := c[layer].img.ReadSection(state.KindPages, c[layer].prefix+name, data); err != nil {
						return err
					}
				}
			}
			if err := to.Poke(data[p.data*pages.Size:][:p.n*pages.Size], p.addr); err != nil {
				return fmt.Errorf("filling memory: %w", err)
			}
			if layer >= 0 && look != nil {
				look.look(data[p.data*pages.Size:][:p.n*pages.Size], p.addr)
			}
		}
	}
	return nil
}

// errNoContent says that an image lacks what a descriptor had.
var errNoContent = errors.New("its content is not in the image")

// content reads a section that belongs to a descriptor.
func (l *layer) content(kind, name string) ([]byte, error) {
	if _, ok := l.img.Lookup(kind, name); !ok {
		return nil, errNoContent
	}
	return l.img.Bytes(kind, name)
}
