package head

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// bringing is a question to the agents of a move: whether the images that go ahead are at hand there.
type bringing struct {
	images ckpt.HeadAction
	left   []*link // that have not answered
}

// bringAhead tells the agents of the new nodes to bring the images that have gone ahead.
func (inc *incarnation) bringAhead(a *ckpt.HeadAction) {
	m := inc.moving
	m.ahead = &bringing{images: *a, left: slices.Clone(m.links)}
	for _, l := range m.links {
		b := wire.Bring{Stores: inc.source.Stores(l.agent.Host())}
		for _, rank := range l.share {
			b.Images = append(b.Images, inc.movedImage(a, rank))
		}
		l.out.Send(oob.Msg{Kind: oob.Bring, From: oob.Head, To: oob.AgentAddr(l.index), A: uint64(a.Seq), Data: wire.JSON(b)})
	}
}

// brought takes an agent's answer. The last one, and the first that is an error, go to the machine.
func (inc *incarnation) brought(l *link, m *oob.Msg) {
	if inc.moving == nil || inc.moving.ahead == nil {
		return
	}
	b := inc.moving.ahead
	i := slices.Index(b.left, l)
	if i < 0 || m.A != uint64(b.images.Seq) {
		return
	}
	ev := ckpt.HeadEvent{Type: ckpt.HvAhead, Seq: b.images.Seq}
	if b.left = slices.Delete(b.left, i, i+1); len(m.Data) > 0 {
		b.left, ev.Err = nil, fmt.Sprintf("%s: %s", l.agent.Host(), m.Data)
	}
	if len(b.left) == 0 {
		inc.step(ev)
	}
}

// moveImages are the images with which a rank goes on: the one that was made when all stood, and what it builds on.
func (inc *incarnation) moveImages(a *ckpt.HeadAction, rank int) []wire.Image {
	images := []wire.Image{inc.movedImage(a, rank)}
	if base := a.Images[rank].Base; base > 0 && inc.moving.ahead != nil && base == inc.moving.ahead.images.Seq {
		images = append(images, inc.movedImage(&inc.moving.ahead.images, rank))
	}
	return images
}
