package ckpt

import (
	"testing"

	"github.com/gorun-mpi/gorun/bookmarks"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"pgregory.net/rapid"
)

// TestRevertFromAnywhere throws random words at a rank, in and out of order,
// and then the head's last word: whatever was, it is Running, its gate was
// opened after it was last closed, and no copy is left. But for Revert, a gate
// that has closed opens only when the rank was captured, or, if that is another's
// business, was Ready; and nothing that failed on the way to a Point outlives
// the decision to do without.
func TestRevertFromAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const np = 3
		r := NewRank(0, np, testIncarnation, rapid.Bool().Draw(t, "sparse"))
		closed, copied := false, false
		step := func(ev RankEvent) {
			before, failed := r.state, r.failed
			out := r.Step(ev)
			if before == Preparing && r.state == Closing && (r.failed || failed && !r.native) {
				t.Fatal("a failed rank closes its gate for its own image")
			}
			for _, a := range out {
				switch a.Type {
				case ActCloseGate:
					if closed {
						t.Fatal("gate closed twice")
					}
					closed = true
				case ActOpenGate:
					allowed := before == Captured || r.native && before == Ready
					if ev.Type == EvMsg && ev.Msg.Kind == oob.Open && (!closed || !allowed) {
						t.Fatalf("the gate opens in state %v, native %v", before, r.native)
					}
					closed = false
				case ActCapture:
					if !closed {
						t.Fatal("capture with the gate open")
					}
					copied = true
				case ActDiscard, ActCommitted:
					copied = false
				}
			}
		}
		head := rapid.SampledFrom([]oob.Kind{oob.Prepare, oob.Target, oob.Close, oob.Senders, oob.Capture, oob.Open, oob.Ask, oob.Revert, oob.Bookmark, oob.Bookmark})
		event := rapid.SampledFrom([]RankEventType{EvArmed, EvAtPoint, EvClosed, EvFlushed, EvProgress, EvCaptured, EvWriting, EvWritten, EvFailed, EvUnable, EvWhere})
		small := rapid.Uint64Range(0, 2) // of numbers, of modes: self and native
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			attempt, _ := r.Attempt()
			if rapid.IntRange(0, 3).Draw(t, "astray") > 0 {
				step(onward(t, r))
				continue
			}
			if rapid.Bool().Draw(t, "message") {
				m := oob.Msg{Kind: head.Draw(t, "kind"), From: oob.Head, Incarnation: testIncarnation,
					Attempt: attempt + uint32(small.Draw(t, "attempt")/2), A: small.Draw(t, "a")}
				if m.Kind == oob.Bookmark {
					m.From = int32(rapid.IntRange(1, np-1).Draw(t, "from"))
				}
				step(RankEvent{Type: EvMsg, Msg: m})
				continue
			}
			n := []uint64{0, small.Draw(t, "n"), small.Draw(t, "n")}
			step(RankEvent{Type: event.Draw(t, "event"), Attempt: attempt, N: n[1], Sent: n, Recv: n})
		}
		attempt, _ := r.Attempt()
		step(RankEvent{Type: EvMsg, Msg: oob.Msg{Kind: oob.Revert, From: oob.Head, Incarnation: testIncarnation, Attempt: attempt}})
		if _, live := r.Attempt(); live || r.State() != Running || closed || copied {
			t.Fatalf("after Revert: live %v, %s, gate closed %v, copy %v", live, r.State().String(), closed, copied)
		}
	})
}

// onward is something that brings a rank of three further.
func onward(t *rapid.T, r *Rank) RankEvent {
	attempt, _ := r.Attempt()
	ones := []uint64{0, 1, 1}
	of := func(kind oob.Kind, a uint64) RankEvent {
		m := oob.Msg{Kind: kind, From: oob.Head, A: a, Incarnation: testIncarnation, Attempt: attempt}
		if kind == oob.Bookmark {
			m.From = rapid.Int32Range(1, 2).Draw(t, "peer")
		}
		return RankEvent{Type: EvMsg, Msg: m}
	}
	mode := rapid.Uint64Range(oob.ModeSelf, oob.ModeNative).Draw(t, "mode")
	var next []RankEvent
	switch r.State() {
	case Running:
		begin := of(oob.Close, mode)
		if mode == oob.ModeSelf {
			begin = of(oob.Prepare, rapid.SampledFrom([]uint64{oob.ModeSelf, oob.ModeAuto}).Draw(t, "self"))
		}
		begin.Msg.Attempt++
		return begin
	case Preparing:
		switch {
		case r.target == 0:
			next = []RankEvent{{Type: EvArmed, N: 1}, of(oob.Target, 2)}
		case !r.stopped:
			next = []RankEvent{{Type: EvAtPoint, N: 2}, {Type: EvAtPoint, N: 2}, {Type: EvUnable}}
		default:
			next = []RankEvent{of(oob.Close, mode)}
		}
		if r.failed {
			next = []RankEvent{of(oob.Close, oob.ModeNative)}
		}
	case Closing:
		next = []RankEvent{{Type: EvClosed}, {Type: EvFlushed, Sent: ones}}
	case Exchanging:
		next = []RankEvent{of(oob.Senders, 2), of(oob.Bookmark, 1)}
	case Draining:
		next = []RankEvent{{Type: EvProgress, Recv: ones}, of(oob.Open, 0)}
	case Ready:
		next = []RankEvent{of(oob.Capture, 0), of(oob.Open, 0)}
	case Capturing:
		next = []RankEvent{{Type: EvCaptured}, of(oob.Open, 0)}
	default:
		next = []RankEvent{of(oob.Open, 0), {Type: EvWritten}}
	}
	ev := rapid.SampledFrom(next).Draw(t, "onward")
	ev.Attempt = attempt
	return ev
}

func TestDestSumRefuses(t *testing.T) {
	for name, m := range map[string]oob.Msg{
		"odd length":     {Attempt: 1, A: 1, Data: make([]byte, 15)},
		"nobody":         {Attempt: 1, A: 0},
		"too many ranks": {Attempt: 1, A: 3},
		"overflow":       {Attempt: 1, A: 1 << 63},
	} {
		if _, done, err := NewDestSum(2).Add(m); err == nil || done {
			t.Errorf("%s: done %v, no error", name, done)
		}
	}
}

func TestDestSumForgetsOldAttempts(t *testing.T) {
	d := NewDestSum(2)
	add := func(from int32, attempt uint32) bool {
		_, done, err := d.Add(oob.Msg{From: from, Attempt: attempt, A: 1, Data: dests(nil)})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	if add(0, 1) || add(0, 2) || add(1, 1) {
		t.Error("a sum of two attempts")
	}
	if !add(1, 2) {
		t.Error("not done")
	}
}

func TestHeadIgnoresStrangers(t *testing.T) {
	h := NewHead(HeadConfig{Size: 2, Incarnation: testIncarnation})
	h.Step(HeadEvent{Type: HvAllUp})
	h.Step(HeadEvent{Type: HvRequest, Request: Request{Mode: oob.ModeNative}})
	for _, m := range []oob.Msg{
		{Kind: oob.Ready, From: 2, Incarnation: testIncarnation, Attempt: 1},
		{Kind: oob.Ready, From: -2, Incarnation: testIncarnation, Attempt: 1},
		{Kind: oob.Ready, From: 1, Incarnation: 8, Attempt: 1},
		{Kind: oob.Ready, From: 1, Incarnation: testIncarnation, Attempt: 2},
		{Kind: oob.FinalizeWant, From: 1, Incarnation: 8},
	} {
		if out := h.Step(HeadEvent{Type: HvMsg, Msg: m}); len(out) != 0 {
			t.Errorf("%+v: %d actions", m, len(out))
		}
	}
	if !h.Busy() {
		t.Error("the attempt is over")
	}
	out := h.Step(HeadEvent{Type: HvRequest, Request: Request{ID: 9, Mode: 77}})
	if len(out) != 1 || out[0].Type != HactDone || out[0].Done.Err == "" {
		t.Errorf("an unknown mode: %+v", out)
	}
}

// FuzzDestSum feeds an agent's sum whatever may come over the wire: it refuses
// or adds, and what it adds up is never more than was said.
func FuzzDestSum(f *testing.F) {
	f.Add(uint64(1), []byte{})
	f.Add(uint64(2), dests(bookmarks.Counts{{Peer: 3, Bytes: 9}}))
	f.Add(uint64(1)<<63, make([]byte, 17))
	f.Fuzz(func(t *testing.T, ranks uint64, data []byte) {
		d := NewDestSum(2)
		m := oob.Msg{Kind: oob.Dests, Attempt: 1, A: ranks, Data: data}
		sum, done, err := d.Add(m)
		if err != nil {
			return
		}
		if !done {
			m.From, m.A = 1, 1
			if sum, done, err = d.Add(m); err != nil || !done {
				t.Fatalf("two ranks: done %v, %v", done, err)
			}
		}
		if len(sum.Data) > 2*len(data) || sum.A != 2 {
			t.Fatalf("the sum speaks for %d ranks in %d bytes", sum.A, len(sum.Data))
		}
		if _, _, err := NewDestSum(2).Add(sum); err != nil {
			t.Fatalf("the head refuses the sum: %v", err)
		}
	})
}
