package native

import (
	"strings"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

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

// followable tells whether writes to a mapping can be told from one another:
// private memory of no file. What is only reserved, without any access, is left
// out: Go programs reserve much, and map anew what they take of it.
func followable(m *proc.Mapping) bool {
	if m.Shared || !m.Anonymous() || m.Prot == 0 {
		return false
	}
	return m.Path == "" || m.Path == "[heap]" || m.Path == "[stack]" || strings.HasPrefix(m.Path, "[anon:")
}
