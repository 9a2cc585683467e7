package restore

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// mergeAddrs sorts ranges and joins those that touch.
func mergeAddrs(all []pages.Extent) []pages.Extent {
	slices.SortFunc(all, func(a, b pages.Extent) int { return cmp.Compare(a.Start, b.Start) })
	merged := all[:0]
	for _, r := range all {
		if n := len(merged); n > 0 && r.Start <= merged[n-1].End {
			merged[n-1].End = max(merged[n-1].End, r.End)
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}

// gapMargin is left free on both sides of what is put into a gap.
const gapMargin = 1 << 20

// gap finds size bytes that are free in used, which is merged: in the highest
// gap that has room, at its upper end.
func gap(used []pages.Extent, size uint64) (uint64, bool) {
	end := uint64(pages.EndOfUser)
	for i := len(used); i >= 0; i-- {
		start := uint64(pages.Lowest)
		if i > 0 {
			start = max(start, used[i-1].End)
		}
		if end > start && end-start >= size+2*gapMargin {
			return (end - gapMargin - size) &^ (pages.Size - 1), true
		}
		if i > 0 {
			end = min(end, used[i-1].Start)
		}
	}
	return 0, false
}

// growth is how far a stack or the heap of brk may still grow after a restore.
const growth = 1 << 30

// taken lists what the image occupies, the kernel's own regions too. With room,
// what can grow is taken to have grown.
func taken(s *state.State, room bool) []pages.Extent {
	var all []pages.Extent
	for i := range s.Regions {
		r := &s.Regions[i]
		if r.Path == "[vsyscall]" {
			continue
		}
		a := pages.Extent{Start: r.Start, End: r.End}
		if room && r.Has("gd") {
			a.Start -= min(growth, a.Start)
		}
		if room && r.Path == "[heap]" {
			a.End += growth
		}
		all = append(all, a)
	}
	if s.VDSO.End > 0 {
		all = append(all, pages.Extent{Start: s.VDSO.Start, End: s.VDSO.End})
	}
	for _, r := range s.VDSO.VVar {
		all = append(all, pages.Extent{Start: r.Start, End: r.End})
	}
	return all
}

// shell is the address space of the fresh process that the image is put into.
type shell struct {
	maps []proc.Mapping
	vdso state.VDSO // without Symbols and Sum if there is none
}

// layout says where things go.
type layout struct {
	scratch uint64 // while the restore runs
	park    uint64 // for the kernel's pages while their old place is cleared
	vdso    uint64 // where the vdso ends up
	moved   bool   // it does not stand where it stood in the image
	code    uint64 // of the bridge, if moved
}

// block is the extent of the vdso and what lies in front of it, which have to
// stay at the same distance from each other.
func block(v *state.VDSO) pages.Extent {
	b := pages.Extent{Start: v.Start, End: v.End}
	for _, r := range v.VVar {
		b.Start = min(b.Start, r.Start)
		b.End = max(b.End, r.End)
	}
	return b
}

// fitsPlace says whether the vdso v can stand where old stood.
func fitsPlace(v, old *state.VDSO) bool {
	if v.Sum != old.Sum || v.End-v.Start != old.End-old.Start || len(v.VVar) != len(old.VVar) {
		return false
	}
	for i, r := range v.VVar {
		o := old.VVar[i]
		if r.End-r.Start != o.End-o.Start || v.Start-r.Start != old.Start-o.Start {
			return false
		}
	}
	return true
}

// bridgeCode is room for the code of a bridge.
const bridgeCode = pages.Size

// layOut finds addresses for everything that has none yet. bridge says that the
// old entry points of the vdso must get jumps even if its code is the same.
func layOut(s *state.State, sh *shell, scratch uint64, bridge bool) (layout, error) {
	l := layout{vdso: s.VDSO.Start}
	block := block(&sh.vdso)
	size := block.End - block.Start
	used := taken(s, false)
	for _, m := range sh.maps {
		used = append(used, pages.Extent{Start: m.Start, End: m.End})
	}
	if bridge || !fitsPlace(&sh.vdso, &s.VDSO) {
		at, ok := gap(mergeAddrs(taken(s, true)), size+bridgeCode)
		if !ok {
			return l, noGap(size + bridgeCode)
		}
		used = append(used, pages.Extent{Start: at, End: at + size + bridgeCode})
		l.vdso, l.code, l.moved = at+sh.vdso.Start-block.Start, at+size, true
	}
	for _, want := range []struct {
		at   *uint64
		size uint64
	}{{&l.scratch, scratch}, {&l.park, size}} {
		used = mergeAddrs(used)
		at, ok := gap(used, want.size)
		if !ok {
			return l, noGap(want.size)
		}
		*want.at = at
		used = append(used, pages.Extent{Start: at, End: at + want.size})
	}
	return l, nil
}

func noGap(size uint64) error {
	return fmt.Errorf("%w: no gap of %d bytes in the address space", state.ErrImage, size)
}
