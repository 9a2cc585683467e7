package capture

import (
	"bytes"
	"cmp"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/dirty"
	"github.com/gorun-mpi/gorun/cr/native/internal/pagemap"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// patch is the part of a mapping that lies in one window.
type patch struct {
	start, end uint64
	whole      bool // all pages are saved, not only those of the process's own
	private    bool // of no file, and may be given back when it was read
}

// window is a part of the address space that becomes one section.
type window struct {
	base    uint64
	patches []patch
}

// windowsOf lists the windows that may hold pages to be saved, by address.
func windowsOf(maps []proc.Mapping, exe string) []window {
	var all []window
	for i := range maps {
		m := &maps[i]
		whole := lost(m, exe)
		if m.Kernels() || m.Shared || m.Has(flagDroppable) || m.Own == 0 && !whole {
			continue
		}
		for at := m.Start; at < m.End; {
			base := at &^ (pages.Window - 1)
			p := patch{at, min(m.End, base+pages.Window), whole, m.Anonymous()}
			if n := len(all); n > 0 && all[n-1].base == base {
				all[n-1].patches = append(all[n-1].patches, p)
			} else {
				all = append(all, window{base, []patch{p}})
			}
			at = p.end
		}
	}
	return all
}

// windowReader reads the windows of a process that does not run. Its methods may
// be called by several goroutines at once.
type windowReader struct {
	mem     *trace.Memory
	pagemap int
	changed *dirty.Changes
	guards  []pages.Extent
	windows []window
	back    *returner
}

// newReader opens what is read; pid is of the copy, or of the standing process.
func (c *captured) newReader(pid int, windows []window) (*windowReader, error) {
	fd, err := pagemap.Open(pid)
	if err != nil {
		return nil, err
	}
	return &windowReader{mem: c.memory(), pagemap: fd, changed: c.changed, guards: c.guards, windows: windows, back: newReturner(c, windows)}, nil
}

func (wr *windowReader) close() {
	wr.back.close()
	unix.Close(wr.pagemap)
}

// knownPages are those of a window that are not read: they are in the base, or there
// is nothing in them.
type knownPages struct{ kept, guards pages.Set }

// read packs the pages of the i-th window that have to be saved into p and lists
// them.
func (wr *windowReader) read(i int, p []byte) (int, string, error) {
	w := &wr.windows[i]
	var known knownPages
	wr.changed.Unchanged(w.base, &known.kept)
	pages.Mark(wr.guards, w.base, &known.guards, true)
	var out pages.List
	n := 0
	for _, pc := range w.patches {
		spans, err := wr.spans(pc)
		if err != nil {
			return 0, "", err
		}
		first := int((pc.start - w.base) / pages.Size)
		for _, s := range spans {
			if n, err = wr.readSpan(w, first+s.First, s.N, pc.whole, &known, &out, p, n); err != nil {
				return 0, "", err
			}
		}
	}
	wr.back.wasRead(i)
	return n, out.String(), nil
}

// spans lists the pages of a patch that are there, counted from its start.
func (wr *windowReader) spans(pc patch) ([]proc.Span, error) {
	count := int((pc.end - pc.start) / pages.Size)
	if pc.whole {
		return []proc.Span{{First: 0, N: count}}, nil
	}
	var buf [pages.PerWindow * 8]byte
	p := buf[:count*8]
	for got := 0; got < len(p); {
		n, err := unix.Pread(wr.pagemap, p[got:], int64(pc.start/pages.Size*8)+int64(got))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return nil, fmt.Errorf("page tables at %#x: %w", pc.start, cmp.Or(err, io.ErrUnexpectedEOF))
		}
		got += n
	}
	return proc.OwnPages(p), nil
}

// readSpan saves count pages from the first-th of the window on; n bytes of p are
// in use. It returns how many are then.
func (wr *windowReader) readSpan(w *window, first, count int, whole bool, known *knownPages, out *pages.List, p []byte, n int) (int, error) {
	for end := first + count; first < end; {
		if known.guards.Has(first) {
			first++
			continue
		}
		last := first
		in := known.kept.Has(first)
		for last < end && known.kept.Has(last) == in && !known.guards.Has(last) {
			last++
		}
		if in {
			out.Add('b', first, last-first)
			first = last
			continue
		}
		got := p[n : n+(last-first)*pages.Size]
		if err := wr.mem.Peek(got, w.base+uint64(first)*pages.Size); err != nil {
			if !whole {
				return 0, unreadable(err)
			}
			got = wr.salvage(got, w.base+uint64(first)*pages.Size)
			last = first + len(got)/pages.Size
			end = last
		}
		n += pack(got, first, out)
		first = last
	}
	return n, nil
}

// salvage reads pages of a file up to its end.
func (wr *windowReader) salvage(p []byte, addr uint64) []byte {
	for at := 0; at < len(p); at += pages.Size {
		if wr.mem.Peek(p[at:at+pages.Size], addr+uint64(at)) != nil {
			return p[:at]
		}
	}
	return p
}

var blankPage [pages.Size]byte

// pack moves the pages in p that are not zero to its front, lists all of them,
// and returns how many bytes are left.
func pack(p []byte, first int, out *pages.List) int {
	n := 0
	for at := 0; at < len(p); at += pages.Size {
		page := p[at : at+pages.Size]
		if bytes.Equal(page, blankPage[:]) {
			out.Add('z', first+at/pages.Size, 1)
			continue
		}
		if n != at {
			copy(p[n:], page)
		}
		n += pages.Size
		out.Add('d', first+at/pages.Size, 1)
	}
	return n
}
