package ckpt

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// The release from Finalize carries the sum of what the ranks say when they enter it;
// one that says it again, having been restored, counts once.
func TestAccounts(t *testing.T) {
	h := NewHead(HeadConfig{Size: 3, Incarnation: testIncarnation})
	h.Step(HeadEvent{Type: HvAllUp})
	var out []HeadAction
	for _, m := range []struct{ rank, account int }{{0, 1000}, {2, -300}, {2, -300}, {1, -600}} {
		out = h.Step(HeadEvent{Type: HvMsg, Msg: oob.Msg{Kind: oob.FinalizeWant, From: int32(m.rank), To: oob.Head,
			Incarnation: testIncarnation, A: uint64(m.account)}})
	}
	told := 0
	for _, a := range out {
		if a.Type == HactSend && a.Msg.Kind == oob.FinalizeGo && a.Msg.A == 100 {
			told++
		}
	}
	if told != 3 {
		t.Errorf("%d ranks were told the sum: %v", told, out)
	}
}
