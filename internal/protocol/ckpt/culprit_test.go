package ckpt

import (
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Of ranks that are equally far the one is named that does not wait for others.
func TestSleeperIsNamed(t *testing.T) {
	h := NewHead(HeadConfig{Size: 3})
	step := func(ev HeadEvent) (actions []HeadAction) { return h.Step(ev) }
	step(HeadEvent{Type: HvAllUp})
	timer := func(actions []HeadAction) (id uint64) {
		for _, a := range actions {
			if a.Type == HactTimer {
				id = a.Timer
			}
		}
		return id
	}
	step(HeadEvent{Type: HvRequest, Request: Request{ID: 1, Mode: oob.ModeSelf}})
	var last []HeadAction
	for rank := range 3 {
		last = step(HeadEvent{Type: HvMsg, Msg: oob.Msg{Kind: oob.Points, From: int32(rank), To: oob.Head, Attempt: 1, A: 7}})
	}
	last = step(HeadEvent{Type: HvTimeout, Timer: timer(last)})
	for rank, waits := range []uint64{1, 1, 0} {
		step(HeadEvent{Type: HvMsg, Msg: oob.Msg{Kind: oob.Where, From: int32(rank), To: oob.Head, Attempt: 1, A: uint64(Preparing), B: waits, Data: []byte("x")}})
	}
	for _, a := range step(HeadEvent{Type: HvTimeout, Timer: timer(last)}) {
		if a.Type == HactDone && strings.HasPrefix(a.Done.Err, "rank 2 has not reached Point 8") {
			return
		}
	}
	t.Error("rank 2, which others wait for, is not named")
}
