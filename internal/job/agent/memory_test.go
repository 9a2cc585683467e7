package agent

import (
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// An image that does not fit into the memory of the node is refused before the rank writes it: in the rank's name, with the node and a
// remedy. What fits is passed on, and so is the size of an image that goes elsewhere.
func TestMakesRoom(t *testing.T) {
	m := mem.New(func() uint64 { return 10 << 20 })
	defer m.Close()
	if err := m.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	a, r := &agent{}, &rankProc{rank: 3}
	captured := func(bytes uint64) oob.Msg {
		return a.makesRoom(r, oob.Msg{Kind: oob.Captured, From: 3, Attempt: 2, A: bytes})
	}
	if m := captured(1 << 30); m.Kind != oob.Captured {
		t.Errorf("of no slot: %+v", m)
	}
	p := image.NewPiece{Context: t.Context(), Store: mem.Open("n1", m, nil), Set: "s", Name: "rank-00003.img"}
	if _, _, err := a.lend(r, p); err != nil {
		t.Fatal(err)
	}
	if m := captured(4 << 20); m.Kind != oob.Captured || m.A != 4<<20 {
		t.Errorf("what fits: %+v", m)
	}
	failed := captured(6 << 20)
	if failed.Kind != oob.Failed || failed.From != 3 || failed.Attempt != 2 {
		t.Errorf("%+v", failed)
	}
	for _, want := range []string{"node n1: ", mem.ErrRoom.Error(), "-ckpt-local"} {
		if !strings.Contains(string(failed.Data), want) {
			t.Errorf("no %q in: %s", want, failed.Data)
		}
	}
	r.giveBack()
	if m := captured(1 << 30); m.Kind != oob.Captured {
		t.Errorf("of a slot that was given back: %+v", m)
	}
}
