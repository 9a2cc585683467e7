package sim

import (
	"encoding/json"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// imager is what a rank's agent does for images of the whole process: it copies
// the rank, which knows nothing of it, and writes the copy behind. The copy
// outlives the rank.
type imager struct {
	taken   uint32 // the newest attempt in which it was told to
	ahead   bool   // what it was told to last goes ahead of a move
	copying int64  // step at which the copy stands, 0: none is made
	write   *write
	base    int // what the image being written builds on, 0: nothing
	aside   int // the image that it has written to go ahead, 0: none
	noted   int // the snapshot since which it notes what changes, 0: it does not
}

// intercepts lets the agent see a message for its rank first; it reports
// whether the rank does not get it.
func (r *rank) intercepts(m *oob.Msg) bool {
	a := &r.agent
	if m.Incarnation != r.inc || m.From != oob.Head {
		return false
	}
	switch m.Kind {
	case oob.Capture:
		var cfg oob.CaptureConfig
		if err := json.Unmarshal(m.Data, &cfg); err != nil {
			r.w.violate("rank %d: order to capture: %v", r.id, err)
		}
		if cfg.Mode != oob.ModeNative {
			return false
		}
		if m.Attempt > a.taken || m.Attempt == a.taken && a.ahead {
			a.taken, a.ahead = m.Attempt, cfg.Ahead
			r.imaged(&cfg)
		}
		return true
	case oob.Revert:
		if m.Attempt == a.taken {
			a.write, a.copying = nil, 0
		}
	}
	return false
}

// imaged copies the rank.
func (r *rank) imaged(cfg *oob.CaptureConfig) {
	w, a := r.w, &r.agent
	if cfg.Ahead { // the rank runs: only what changes from now on is known
		a.base, a.noted, a.copying = 0, cfg.Seq, 0
		a.write = &write{attempt: a.taken, img: &image{rank: r.id}, seq: cfg.Seq}
		return
	}
	w.checkCut(r)
	img, err := w.imageOf(r, false)
	if err != nil {
		w.violate("rank %d: %v", r.id, err)
	}
	if w.breaks(baseNotCommitted) {
		cfg.Base = a.noted
	}
	whole := w.store.has(cfg.Base) || cfg.Move && a.aside == cfg.Base
	if cfg.Base != 0 && (!whole || a.noted != cfg.Base) {
		w.violate("rank %d's image builds on %d; what has changed since %d is known, whole: %v", r.id, cfg.Base, a.noted, whole)
	}
	a.base, a.noted = cfg.Base, cfg.Seq
	if w.rng.IntN(5) == 0 {
		a.base = 0 // it has lost count
	}
	w.logf("rank %d is imaged by its agent, base %d", r.id, a.base)
	a.write = &write{attempt: a.taken, img: img, seq: cfg.Seq}
	w.passes()
	a.copying = w.now + 1
	if w.breaks(opensBeforeOthers) {
		r.drv.closed = false
		r.openGate()
	}
}

func (a *imager) busy() bool { return a.write != nil }

// turn goes on with the copy or the image, and says so in the rank's name.
func (a *imager) turn(r *rank) {
	w, x := r.w, a.write
	say := func(kind oob.Kind, n uint64, data string) {
		w.put(int32(r.id), oob.Head, oob.Msg{Kind: kind, From: int32(r.id), To: oob.Head,
			Incarnation: r.inc, Attempt: x.attempt, A: n, Data: []byte(data)})
	}
	if a.copying != 0 {
		if w.now >= a.copying {
			a.copying = 0
			say(oob.Captured, x.img.bytes(), "")
		}
		return
	}
	switch x.done++; {
	case w.plan.failIO && w.rng.IntN(12) == 0:
		a.write = nil
		kind := uint64(0)
		if a.ahead {
			kind = oob.FailedAhead
		}
		say(oob.Failed, kind, "no space left on device")
	case x.done < 3:
		say(oob.Progress, uint64(x.done), "")
	default:
		a.write = nil
		w.store.put(x.seq, r.id, x.img)
		w.wrote(x.seq, x.img)
		if a.ahead {
			a.aside = x.seq
		}
		if a.base != 0 {
			w.seen.incremental++
		}
		say(oob.Written, x.img.bytes(), fmt.Sprintf(`{"file":%q,"size":%d,"base":%d}`, ckpt.ImageName(r.id), x.img.bytes(), a.base))
	}
}
