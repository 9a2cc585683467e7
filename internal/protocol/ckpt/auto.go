package ckpt

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// A request for "auto" tries portable images first. If not all ranks stop at a Point within a limit, the same
// attempt goes on with native images.

// fits reports whether a request may share the attempt. It may if it asks for the same kind of images, or for
// the kind that the attempt makes and can no longer change.
func (a *attempt) fits(r Request) bool {
	if r.Codec != a.codec || a.move != nil || len(r.Move) > 0 || a.apart && r.Stop != a.stop {
		return false
	}
	settled := a.phase >= phasePlace
	return r.Mode == a.wanted || settled && (r.Mode == a.mode || r.Mode == oob.ModeAuto && a.mode == oob.ModeSelf)
}

// join adds to the attempt the waiting requests that fit it.
func (h *Head) join() {
	h.queue = slices.DeleteFunc(h.queue, func(r waiting) bool {
		if h.run.fits(r.Request) {
			h.run.add(r, h.cfg.PhaseMillis)
			return true
		}
		return false
	})
}

// decide returns the kind of images to try first for a request, or why there can be none.
func (h *Head) decide(r Request) (mode uint64, note []string, err string) {
	wanted := r.Mode
	if wanted == oob.ModeNative {
		if h.cfg.NativeErr != "" {
			err = "whole processes cannot be imaged: " + h.cfg.NativeErr
		}
		return oob.ModeNative, nil, err
	}
	rank := slices.Index(h.inFinalize, true)
	switch {
	case rank < 0 && r.Pointless != "" && wanted == oob.ModeAuto && h.cfg.NativeErr == "":
		return oob.ModeNative, []string{nativeNote(r.Pointless)}, ""
	case rank < 0:
		return oob.ModeSelf, nil, ""
	case wanted == oob.ModeAuto && h.cfg.NativeErr == "":
		return oob.ModeNative, []string{nativeNote(finalizeText(rank))}, ""
	}
	return oob.ModeSelf, nil, h.bothWays(wanted, finalizeText(rank))
}

// trying reports whether the attempt may yet become a native one.
func (h *Head) trying() bool {
	a := h.run
	return a.phase < phasePlace && a.wanted == oob.ModeAuto && h.cfg.NativeErr == ""
}

// firstChoice returns the mode that Prepare tells the ranks. It is ModeAuto where the stop may be skipped. Then
// a rank with nothing to save says so at once.
func (h *Head) firstChoice() uint64 {
	if h.trying() {
		return oob.ModeAuto
	}
	return oob.ModeSelf
}

// pointless is called when not all ranks will stop at the Point.
func (h *Head) pointless(why string) {
	if h.trying() {
		h.fallBack(why)
		return
	}
	h.fail(h.bothWays(h.run.wanted, why))
}

// bothWays adds, to the reason why there are no portable images, the reason why there are no native ones. It
// does so only if native ones would have served.
func (h *Head) bothWays(wanted uint64, why string) string {
	if wanted == oob.ModeAuto && h.cfg.NativeErr != "" {
		why += "; and whole processes cannot be imaged: " + h.cfg.NativeErr
	}
	return why
}

// fallBack goes on with native images. Ranks that have stopped stay at their Points, where they can be imaged
// as well as anywhere. The order to stop ends when the gate closes.
func (h *Head) fallBack(why string) {
	a := h.run
	a.mode = oob.ModeNative
	if why != "" {
		a.notes = append(a.notes, nativeNote(why))
	}
	h.enter(phasePlace)
}

func nativeNote(why string) string {
	return "whole processes were imaged, because not all ranks stopped at a Point: " + why
}

// failed takes a rank's failure. If the rank failed on the way to a Point, before it heard that the attempt
// goes on with native images, the failure is ignored.
func (h *Head) failed(rank int, m *oob.Msg) {
	a := h.run
	preparing := m.A == failedPreparing
	why := fmt.Sprintf("rank %d: %s", rank, m.Data)
	switch {
	case a.phase == phaseCommitting:
	case m.A == oob.FailedAhead: // known already
	case preparing && a.mode == oob.ModeNative:
	case preparing && h.trying() && m.B == nothingToPrepare:
		h.fallBack("") // an ordinary program that registers nothing: no remark for the user
	case preparing:
		h.pointless(why)
	default:
		h.fail(why)
	}
}

// outcome describes the committed snapshot to the requests that share it.
func (a *attempt) outcome() Done {
	d := Done{Seq: a.seq, Stop: a.stop, Mode: a.mode, Notes: a.notes}
	for rank := range a.images {
		im := &a.images[rank]
		d.Pause = max(d.Pause, time.Duration(im.Pause))
		d.Base = max(d.Base, im.Base)
		if im.Note != "" {
			d.Notes = append(d.Notes, fmt.Sprintf("rank %d: %s", rank, im.Note))
		}
	}
	return d
}

// chain is the series of native snapshots that the next one may build on: a full one, and incremental ones
// since.
type chain struct {
	last   int // sequence of the newest, 0: there is none to build on
	length int
}

// begin returns the snapshot that the next one may build on. The agents begin again to note changes with the
// next one. So if it is not committed, there is nothing left to build on.
func (c *chain) begin(fullEvery int) (base int) {
	base = c.last
	if c.length >= fullEvery {
		base = 0
	}
	c.last = 0
	return base
}

// committed notes that the snapshot begun last is whole. An agent that could not build on base has made full
// images. The snapshot continues the chain if at least one rank's image builds on base.
func (c *chain) committed(seq, base int) {
	if base == 0 {
		c.length = 0
	}
	c.last = seq
	c.length++
}
