// Package dirty follows which pages of a process change between captures, so that an
// image holds those alone.
//
//	capture 1        capture 2             capture 3
//	protect all ---> which were written,   which were written,
//	                 protect them ------>  protect them
//
// Only pages that are known to be unchanged are left to the image before. Memory that
// is not followed, or was mapped meanwhile, counts as changed.
package dirty

import (
	"strings"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// Changes tells which pages of a process have not changed since the capture
// that the next image builds on. The zero value, and nil, know of none: the
// image is full.
type Changes struct {
	// followed are the regions whose pages are followed, and written the pages that
	// were written since then, or came into being, or under watch. Both are sorted
	// and free of overlaps.
	followed, written []pages.Extent
}

// Unchanged makes set the pages of the window that hold what they held then, as
// far as they are present at all: one that was given back is absent, whatever
// the set says.
func (c *Changes) Unchanged(window uint64, set *pages.Set) {
	*set = pages.Set{}
	if c == nil {
		return
	}
	pages.Mark(c.followed, window, set, true)
	pages.Mark(c.written, window, set, false)
}

// followable tells whether writes to a mapping can be told from one another:
// private memory of no file. What is only reserved, without any access, is left
// out: Go programs reserve much, and map again the parts that they use.
func followable(m *proc.Mapping) bool {
	if m.Shared || !m.Anonymous() || m.Prot == 0 {
		return false
	}
	return m.Path == "" || m.Path == "[heap]" || m.Path == "[stack]" || strings.HasPrefix(m.Path, "[anon:")
}
