package ckpt

import (
	"encoding/json"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"pgregory.net/rapid"
)

// TestHeadDecidesOnce throws random words of ranks, in and out of order, at a
// head with an auto attempt. The head falls back once at most, and never after the
// gates were ordered to close for self. It captures what it has decided on. It builds
// on nothing but the last committed native snapshot, and tells the truth about it.
func TestHeadDecidesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const np = 2
		every := rapid.IntRange(0, 3).Draw(t, "full every")
		h := NewHead(HeadConfig{Size: np, Incarnation: testIncarnation, FullEvery: every})
		var attempt, closes uint32
		var mode, timer uint64
		seq, base, length := 0, 0, 0 // the folder, and the chain
		var step func(ev HeadEvent)
		do := func(a HeadAction) {
			switch a.Type {
			case HactTimer:
				timer = a.Timer
			case HactFolder:
				seq++
				step(HeadEvent{Type: HvFolder, Seq: seq})
			case HactSend:
				if a.Msg.To != 0 {
					return
				}
				if a.Msg.Attempt != attempt {
					attempt, closes, mode = a.Msg.Attempt, 0, 0
				}
				switch a.Msg.Kind {
				case oob.Close:
					if closes++; closes > 1 {
						t.Fatalf("attempt %d closes the gates twice", attempt)
					}
					mode = a.Msg.A
				case oob.Capture:
					var cfg oob.CaptureConfig
					if err := json.Unmarshal(a.Msg.Data, &cfg); err != nil {
						t.Fatal(err)
					}
					if cfg.Mode != mode {
						t.Fatalf("gates closed for mode %d, capture for %d", mode, cfg.Mode)
					}
					if cfg.Base != 0 && (mode != oob.ModeNative || cfg.Base != base || length >= every) {
						t.Fatalf("mode %d builds on %d; the last native snapshot is %d, the chain %d of %d", mode, cfg.Base, base, length, every)
					}
					if mode == oob.ModeNative {
						base = 0 // until it is committed
					}
				}
			case HactCommit:
				if a.Mode != mode {
					t.Fatalf("images of mode %d are committed as of mode %d", mode, a.Mode)
				}
				if mode == oob.ModeNative {
					built := false
					for _, im := range a.Images {
						built = built || im.Base != 0
					}
					if !built {
						length = 0
					}
					base = a.Seq
					length++
				}
				step(HeadEvent{Type: HvCommitted})
			case HactDone:
				if a.Done.Err == "" && a.Done.Mode != mode {
					t.Fatalf("who asked is told of mode %d, it was %d", a.Done.Mode, mode)
				}
			}
		}
		step = func(ev HeadEvent) {
			for _, a := range h.Step(ev) {
				do(a)
			}
		}
		step(HeadEvent{Type: HvAllUp})
		word := rapid.SampledFrom([]oob.Kind{oob.Points, oob.AtPoint, oob.Ready, oob.Ready, oob.Captured, oob.Captured, oob.Written, oob.Written, oob.Failed})
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0:
				step(HeadEvent{Type: HvTimeout, Timer: timer})
			case 1:
				step(HeadEvent{Type: HvRequest, Request: Request{Mode: rapid.Uint64Range(1, 3).Draw(t, "mode")}})
			case 2, 3, 4, 5, 6, 7, 8:
				for _, m := range onwards(h) {
					step(HeadEvent{Type: HvMsg, Msg: m})
				}
			default:
				m := oob.Msg{Kind: word.Draw(t, "word"), From: rapid.Int32Range(0, np-1).Draw(t, "from"), Incarnation: testIncarnation, Attempt: attempt}
				switch m.Kind {
				case oob.AtPoint:
					m.A = h.point()
				case oob.Failed:
					m.A = rapid.Uint64Range(0, 1).Draw(t, "on the way")
				case oob.Written:
					m.Data = []byte("{}")
					if h.run != nil && h.run.base != 0 && rapid.Bool().Draw(t, "built") {
						m.Data, _ = json.Marshal(oob.ImageInfo{Base: h.run.base})
					}
				}
				step(HeadEvent{Type: HvMsg, Msg: m})
			}
		}
	})
}

// onwards is what the ranks say next if all goes well.
func onwards(h *Head) (all []oob.Msg) {
	a := h.run
	if a == nil {
		return nil
	}
	kind, ok := map[phase]oob.Kind{phasePoints: oob.Points, phaseTarget: oob.AtPoint, phaseDraining: oob.Ready,
		phaseCapturing: oob.Captured, phaseWriting: oob.Written}[a.phase]
	if !ok {
		return nil
	}
	for rank := range h.cfg.Size {
		m := oob.Msg{Kind: kind, From: int32(rank), Incarnation: testIncarnation, Attempt: a.n, A: a.point}
		if kind == oob.Written {
			m.Data, _ = json.Marshal(oob.ImageInfo{Base: a.base})
		}
		all = append(all, m)
	}
	return all
}

func (h *Head) point() uint64 {
	if h.run == nil {
		return 0
	}
	return h.run.point
}
