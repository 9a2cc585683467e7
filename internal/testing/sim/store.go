package sim

import (
	"bytes"
	"errors"
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// image is one rank's image. The portable kind holds what a program registers
// and the saved messages; the kind of the whole process is the rank itself,
// with its engine, which the simulator keeps as it stands.
type image struct {
	rank     int
	self     bool
	state    saved
	messages []engine.Saved
	sent     []uint64 // the engine's counts at the cut
	recv     []uint64
	sends    []int // events this rank has sent, in order, and received: the oracle's
	gets     []int
}

func (i *image) bytes() uint64 { return 100 + uint64(len(i.messages)) }

// store is stable storage: folders that are being filled, and snapshots.
type store struct {
	seq       int
	pending   map[int]map[int]*image
	committed []snapshot
}

type snapshot struct {
	seq         int
	incarnation uint64 // whose
	images      []*image

	kept *making // in memory; nil: on a disk
	weak bool    // with less than the policy wants
}

func (s *store) begin() int {
	s.seq++
	s.pending[s.seq] = make(map[int]*image)
	return s.seq
}

// put makes one image durable; in a folder that is gone it comes to nothing.
func (s *store) put(seq, rank int, img *image) {
	if f := s.pending[seq]; f != nil {
		f[rank] = img
	}
}

func (s *store) commit(w *world, seq int) {
	f := s.pending[seq]
	if len(f) != w.np {
		w.violate("snapshot %d is committed with %d of %d images", seq, len(f), w.np)
	}
	snap := snapshot{seq: seq, incarnation: w.incarnation, images: make([]*image, w.np)}
	for r, img := range f {
		snap.images[r] = img
	}
	w.checkSnapshot(snap.images)
	delete(s.pending, seq)
	s.committed = append(s.committed, snap)
	w.logf("snapshot %d is committed", seq)
	w.seen.commits++
}

func (s *store) discard(w *world, seq int) {
	if s.has(seq) {
		w.violate("the committed snapshot %d is removed", seq)
	}
	delete(s.pending, seq)
}

func (s *store) has(seq int) bool {
	return slices.ContainsFunc(s.committed, func(x snapshot) bool { return x.seq == seq })
}

// portable reports whether a committed snapshot is one of the portable back-end.
func (s *store) portable(seq int) bool {
	i := slices.IndexFunc(s.committed, func(x snapshot) bool { return x.seq == seq })
	return s.committed[i].images[0].self
}

// newest returns the newest snapshot that the simulator can restore: one of
// the portable back-end.
func (s *store) newest(w *world) []*image {
	for _, snap := range slices.Backward(s.committed) {
		if snap.images[0].self && snap.kept == nil {
			return snap.images
		}
		if snap.images[0].self {
			if images := w.recall(&snap); images != nil {
				return images
			}
		}
	}
	return nil
}

// imageOf makes the image of a rank at its cut.
func (w *world) imageOf(r *rank, self bool) (*image, error) {
	img := &image{rank: r.id, self: self, state: r.app.saved,
		sent: slices.Clone(r.e.Sent()), recv: slices.Clone(r.e.Received())}
	img.sends, img.gets = w.oracle.of(r.id)
	if !img.self {
		return img, nil
	}
	var err error
	img.messages, err = r.e.Saved()
	if cut := (*engine.CutError)(nil); errors.As(err, &cut) && w.hopeful(r) {
		w.violate("rank %d is saved at a Point, and its team is in the middle of a turn: %v", r.id, err)
	}
	return img, err
}

// checkSnapshot looks at all images of one cut together.
func (w *world) checkSnapshot(images []*image) {
	got := make([]bool, len(w.prog.events))
	for _, img := range images {
		if img.self != images[0].self {
			w.violate("images of ranks 0 and %d are of two kinds", img.rank)
		}
		for _, id := range img.gets {
			got[id] = true
		}
		for peer, n := range img.sent {
			if peer != img.rank && images[peer].recv[img.rank] != n {
				w.violate("rank %d's image has sent %d bytes to rank %d, whose image has received %d",
					img.rank, n, peer, images[peer].recv[img.rank])
			}
		}
	}
	if !images[0].self {
		return
	}
	for _, img := range images {
		if img.state.round != images[0].state.round {
			w.violate("images of ranks 0 and %d stand at two Points: rounds %d and %d", img.rank, images[0].state.round, img.state.round)
		}
	}
	w.checkSaved(images, got)
}

// checkSaved compares the saved messages with those that were sent and not
// received: the same ones, whole, in order.
func (w *world) checkSaved(images []*image, got []bool) {
	type stream struct {
		src, dst int
		ctx      uint64
	}
	want := make(map[stream][]int)
	for _, img := range images {
		for _, id := range img.sends {
			e := &w.prog.events[id]
			if !got[id] {
				k := stream{e.src, e.dst, e.ctx}
				want[k] = append(want[k], id)
			}
			got[id] = false // what is left was received, and not sent
		}
	}
	for id, g := range got {
		if g {
			w.violate("event %d was received before the cut and sent after it", id)
		}
	}
	for _, img := range images {
		for _, m := range img.messages {
			k := stream{m.Source, img.rank, m.Ctx}
			if len(want[k]) == 0 {
				w.violate("rank %d's image holds a message of rank %d, context %#x, that was received or never sent", img.rank, m.Source, m.Ctx)
			}
			e := &w.prog.events[want[k][0]]
			want[k] = want[k][1:]
			buf := make([]byte, e.size)
			content(buf, e.id, w.prog.salt(e))
			if m.Tag != e.tag || !bytes.Equal(m.Data, buf) {
				w.violate("rank %d's image holds another message of rank %d, context %#x, than event %d", img.rank, m.Source, m.Ctx, e.id)
			}
			w.seen.saved++
		}
	}
	for k, ids := range want {
		if len(ids) > 0 {
			w.violate("the message of event %d, rank %d to rank %d, is in no image", ids[0], k.src, k.dst)
		}
	}
}
