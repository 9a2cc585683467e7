// Package pages is how images count memory: addresses, pages, windows of pages, and
// the text by which an image lists the pages of a window.
package pages

import "slices"

// Window is the part of the address space that one "pages" section covers.
const Window = 4 << 20

// Size is the unit in which memory is saved.
const Size = 4096

// PerWindow is the number of pages of a window.
const PerWindow = Window / Size

// The address space of a process on amd64 with four levels of page tables.
const (
	Lowest    = 0x10000 // below it nothing can be mapped without privilege
	EndOfUser = 0x7ffffffff000
)

// Extent is a range of addresses, the end not included.
type Extent struct {
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
}

// Has tells whether an address lies in it.
func (e Extent) Has(addr uint64) bool { return addr >= e.Start && addr < e.End }

// Set is a set of the pages of one window.
type Set [Window / Size / 64]uint64

// Has tells whether the n-th page of the window is in the set.
func (s *Set) Has(n int) bool { return s[n/64]&(1<<(n%64)) != 0 }

// Fill puts the pages from first to before last into the set, or takes them out.
func (s *Set) Fill(first, last int, in bool) {
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

// Mark puts the pages of the window that lie in extents into the set, or takes
// them out.
func Mark(extents []Extent, window uint64, set *Set, in bool) {
	i, _ := slices.BinarySearchFunc(extents, window, func(s Extent, at uint64) int {
		if s.End <= at {
			return -1
		}
		return 1
	})
	for ; i < len(extents) && extents[i].Start < window+Window; i++ {
		first := max(extents[i].Start, window) - window
		last := min(extents[i].End, window+Window) - window
		set.Fill(int(first/Size), int(last/Size), in)
	}
}

// Append appends one that begins behind all others, or at least behind
// the start of the last.
func Append(extents []Extent, e Extent) []Extent {
	if n := len(extents); n > 0 && extents[n-1].End >= e.Start {
		extents[n-1].End = max(extents[n-1].End, e.End)
		return extents
	}
	return append(extents, e)
}
