package native

import (
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// extent is a range of addresses, the end not included.
type extent struct{ start, end uint64 }

// pageSet is a set of the pages of one window.
type pageSet [Window / PageSize / 64]uint64

// has tells whether the n-th page of the window is in the set.
func (s *pageSet) has(n int) bool { return s[n/64]&(1<<(n%64)) != 0 }

// fill puts the pages from first to before last into the set, or takes them out.
func (s *pageSet) fill(first, last int, in bool) {
	for n := first; n < last; {
		bit := n % 64
		count := min(64-bit, last-n)
		mask := (^uint64(0) >> (64 - count)) << bit
		if in {
			s[n/64] |= mask
		} else {
			s[n/64] &^= mask
		}
		n += count
	}
}

// changes tells which pages of a process have not changed since the capture
// that the next image builds on. The zero value, and nil, know of none: the
// image is full.
type changes struct {
	// followed are the regions whose pages are followed, and written the pages that
	// were written since then, or came into being, or under watch. Both are sorted
	// and free of overlaps.
	followed, written []extent
}

// unchanged sets in pages those of the window that hold what they held then, as
// far as they are present at all: one that was given back is absent, whatever
// the set says.
func (c *changes) unchanged(window uint64, pages *pageSet) {
	*pages = pageSet{}
	if c == nil {
		return
	}
	mark(c.followed, window, pages, true)
	mark(c.written, window, pages, false)
}

// mark puts the pages of the window that lie in extents into the set, or takes
// them out.
func mark(extents []extent, window uint64, pages *pageSet, in bool) {
	i, _ := slices.BinarySearchFunc(extents, window, func(s extent, at uint64) int {
		if s.end <= at {
			return -1
		}
		return 1
	})
	for ; i < len(extents) && extents[i].start < window+Window; i++ {
		first := max(extents[i].start, window) - window
		last := min(extents[i].end, window+Window) - window
		pages.fill(int(first/PageSize), int(last/PageSize), in)
	}
}

// appendExtent appends one that begins behind all others, or at least behind
// the start of the last.
func appendExtent(extents []extent, e extent) []extent {
	if n := len(extents); n > 0 && extents[n-1].end >= e.start {
		extents[n-1].end = max(extents[n-1].end, e.end)
		return extents
	}
	return append(extents, e)
}

// followable tells whether writes to a mapping can be told from one another:
// private memory of no file. What is only reserved, without any access, is left
// out: Go programs reserve much, and map anew what they take of it.
func followable(m *proc.Mapping) bool {
	if m.Shared || !m.Anonymous() || m.Prot == 0 {
		return false
	}
	return m.Path == "" || m.Path == "[heap]" || m.Path == "[stack]" || strings.HasPrefix(m.Path, "[anon:")
}
