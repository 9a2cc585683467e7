package ckpt

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/internal/oob"
)

// What becomes of a request for "auto": portable images where all ranks stop at
// a Point within a limit, else, in the same attempt, images of whole processes.

// fits reports whether a request may share the attempt: it asks for the same,
// or for what the attempt has turned out to make when it can no longer change.
func (a *attempt) fits(r Request) bool {
	if r.Codec != a.codec {
		return false
	}
	settled := a.phase >= phasePlace
	return r.Mode == a.wanted || settled && (r.Mode == a.mode || r.Mode == oob.ModeAuto && a.mode == oob.ModeSelf)
}

// join takes into the attempt what waits and fits it.
func (h *Head) join() {
	h.queue = slices.DeleteFunc(h.queue, func(r Request) bool {
		if h.run.fits(r) {
			h.run.add(r, h.cfg.PhaseMillis)
			return true
		}
		return false
	})
}

// decide says what a request is to be tried with first, or why it cannot be.
func (h *Head) decide(wanted uint64) (mode uint64, note []string, err string) {
	if wanted == oob.ModeNative {
		if h.cfg.NativeErr != "" {
			err = "whole processes cannot be imaged: " + h.cfg.NativeErr
		}
		return oob.ModeNative, nil, err
	}
	rank := slices.Index(h.inFinalize, true)
	switch {
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

// firstChoice is what the ranks are told that the stop at a Point is for: ModeAuto
// where it may be left out, so that one with nothing to save says so at once.
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

// bothWays adds to the reason why there are no portable images why there are no
// others, if they had been welcome.
func (h *Head) bothWays(wanted uint64, why string) string {
	if wanted == oob.ModeAuto && h.cfg.NativeErr != "" {
		why += "; and whole processes cannot be imaged: " + h.cfg.NativeErr
	}
	return why
}

// fallBack goes on natively. Ranks that have stopped stay at their Points, which
// are as good a place as any; the order to stop ends with the closed gate.
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

// failed takes a rank's failure. One on the way to a Point, told before the rank
// heard that the attempt goes on natively, is forgotten.
func (h *Head) failed(rank int, m *oob.Msg) {
	a := h.run
	preparing := m.A == failedPreparing
	why := fmt.Sprintf("rank %d: %s", rank, m.Data)
	switch {
	case a.phase == phaseCommitting:
	case preparing && a.mode == oob.ModeNative:
	case preparing && h.trying() && m.B == nothingToPrepare:
		h.fallBack("") // an ordinary program that registers nothing: nothing to wonder at
	case preparing:
		h.pointless(why)
	default:
		h.fail(why)
	}
}

// outcome describes the committed snapshot to those who asked for it.
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

// chain is the row of native snapshots that a next one may build on: a full one
// and what was saved of the changes since.
type chain struct {
	last   int // sequence of the newest, 0: there is none to build on
	length int
}

// begin returns the snapshot that the next one may build on. With it the agents
// begin to note changes anew: if it is not committed, there is none any more.
func (c *chain) begin(fullEvery int) (base int) {
	base = c.last
	if c.length >= fullEvery {
		base = 0
	}
	c.last = 0
	return base
}

// committed notes that the snapshot begun last is whole. An agent that could
// not build on base has made full images; one rank that did makes it a chain.
func (c *chain) committed(seq, base int) {
	if base == 0 {
		c.length = 0
	}
	c.last = seq
	c.length++
}
