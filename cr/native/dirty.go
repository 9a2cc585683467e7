package native

import (
	"slices"
	"strings"
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
	// followed are the regions that were followed all the time since then, and
	// written the pages in them that were written or came into being. Both are
	// sorted and free of overlaps.
	followed, written []extent
}

// unchanged sets in pages those of the window that hold what they held then, as
// far as they are present at all: a page that was given back is absent, is in
// no state to be read from the base image, and may be in the set.
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

// bytesWritten is how many bytes of memory were written since then in what was
// followed.
func (c *changes) bytesWritten() uint64 {
	var n uint64
	if c != nil {
		for _, s := range c.written {
			n += s.end - s.start
		}
	}
	return n
}

// followable tells whether writes to a mapping can be told from one another:
// private memory of no file. What is only reserved, without any access, is left
// out: Go programs reserve much, and map anew what they take of it.
func followable(m *mapping) bool {
	if m.shared || !m.anonymous() || m.prot == 0 {
		return false
	}
	return m.path == "" || m.path == "[heap]" || m.path == "[stack]" || strings.HasPrefix(m.path, "[anon:")
}
