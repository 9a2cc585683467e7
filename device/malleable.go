package device

import (
	"fmt"
	"math"
	"slices"
)

// Layout is how rows are dealt out to devices, in a program that adapts to the devices which it finds. It is made by Malleable.
type Layout struct {
	ds      Devices
	rows    int
	kept    layout // part of images
	was     []int
	changed bool
}

// layout is what an image has of a Layout.
type layout struct {
	Bounds []int
	Shares []float64 // of all speed
}

// Malleable deals rows out to devices by their speed, as Split does. A program that registers the
// Layout (cr.Register) learns after a restart whether the devices have changed, and may
// redistribute its state for each device:
//
//	l := device.Malleable(ds, rows)
//	state.Register("layout", l)
//	state.Register("sums", &sums)              // one for each device
//	if was, changed := l.Changed(); changed {
//		... make sums, which are for the devices from was[i] to was[i+1], those of l.Bounds() ...
//	}
//
// The contract:
//
//   - Without an image the bounds are those of Split.
//   - After a restart with as many devices, none of whose shares of all speed is another by more than a tenth, they are those of the image,
//     and so is every result that depends on them.
//   - After a restart with others they are those of Split for the devices that there are, and Changed tells those of the image.
//   - Redeal follows the same rule while the program runs, as after Measure.
//
// Arrays need no redistribution: after a restart all of their rows are valid on the host, and go to whichever device asks for them. A program that must not
// depend on the number of devices uses Virtual with a number of its own instead, and needs no Layout. A Layout is one rank's: a restart with another number of
// ranks refuses it, as all that is not distributed.
func Malleable(ds Devices, rows int) *Layout {
	if len(ds) == 0 || rows < 0 {
		panic(fmt.Sprintf("device.Malleable: %d devices, %d rows", len(ds), rows))
	}
	l := &Layout{ds: ds, rows: rows}
	l.deal()
	return l
}

func (l *Layout) deal() { l.kept = layout{l.ds.Split(l.rows), l.ds.shares()} }

// Bounds returns how rows are dealt out: device i has those from bounds[i] to before bounds[i+1].
func (l *Layout) Bounds() []int { return slices.Clone(l.kept.Bounds) }

// Changed reports whether the last restart, or the last Redeal, has redistributed rows, and the
// bounds before. Their number is that of the devices then, and one.
func (l *Layout) Changed() (was []int, changed bool) { return slices.Clone(l.was), l.changed }

// Redeal redistributes rows if the shares of the devices have changed, for example by
// Devices.Measure, and returns the same as Changed. Call it where the program can move its
// state for each device.
func (l *Layout) Redeal() (was []int, changed bool) {
	l.compare(l.kept)
	return l.Changed()
}

// compare keeps an old layout, or makes a new one.
func (l *Layout) compare(old layout) {
	l.was, l.changed = old.Bounds, !alike(old.Shares, l.ds.shares())
	if l.changed {
		l.deal()
	} else {
		l.kept = old
	}
}

// alike reports whether no device has another share.
func alike(old, now []float64) bool {
	if len(old) != len(now) {
		return false
	}
	for i := range old {
		if math.Abs(now[i]-old[i]) > old[i]/10 {
			return false
		}
	}
	return true
}

// Image is how a Layout is part of portable images (see cr.Register).
func (l *Layout) Image() (ptr any, fetch, restored func() error) {
	mine := l.kept
	return &l.kept, func() error { return nil }, func() error {
		old := l.kept
		l.kept = mine
		if n := len(old.Bounds); n < 2 || n != len(old.Shares)+1 || old.Bounds[n-1] != l.rows {
			return fmt.Errorf("%w: the image has the bounds %v, for other rows than %d", ErrArgument, old.Bounds, l.rows)
		}
		l.compare(old)
		return nil
	}
}
