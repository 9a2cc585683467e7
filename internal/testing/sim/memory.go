package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/storage/protect"
)

// Snapshots in the memory of machines. Which machine is to have a copy or a shard, when one is made, which losses leave everything to be had, when a snapshot
// is weak and what may be given up are the rules that ship (package protect). Who makes copies, and finds them for a restart, is written again here, see mirror.go
// and tend.go of package head. The memory of a machine ends with its keeper, and all memory with the job.
//
//	a rank's image is written    its machine holds it; when all of its group are, machines make copies or shards, one by one
//	all are made, or cannot be   the snapshot is committed; older ones are given up
//	a life begins                survivors from their own machines, the others from copies, or of what is left of their group

// memory is all of it.
type memory struct {
	policy protect.Policy // nil: snapshots go to a disk
	job    int64
	held   map[site]map[name]piece
	making map[int]*making // by snapshot
}

// site is a process that holds pieces: a keeper, or a head. The next keeper on a machine is another one.
type site struct {
	m     *machine // nil: the head's own
	since int64
}

// name is that of a piece: of a snapshot, the image of a rank (shard -1), or a shard of the group that begins with the rank.
type name struct{ seq, rank, shard int }

// piece is an image, or what a shard was computed of.
type piece []*image

// making is a snapshot whose copies are being made.
type making struct {
	*protect.Making
	p      protect.Placement
	at     []site // by node
	broken error
	under  int
}

// remembers sends snapshots of some schedules to memory, with checkpoints that show it; where a mutant of memory is looked for those of all,
// with the policy that has it.
func (p *plan) remembers(rng *rand.Rand, m Mutant) {
	if rng.IntN(2) == 0 && !m.remembers() || p.unregistered {
		return
	}
	policies := []protect.Policy{protect.Ring(1), protect.Ring(2), protect.Code{Data: 2, Parity: 1}, protect.Code{Data: 2, Parity: 1}, protect.Code{Data: 2, Parity: 1}, protect.Code{Data: 3, Parity: 2}}
	switch p.memory = policies[rng.IntN(len(policies))]; {
	case m == parityMixed:
		p.memory = protect.Code{Data: 2, Parity: 1}
	case m.remembers():
		p.memory = protect.Ring(1)
	}
	p.fullEvery = 1
	p.machines, p.agents = p.machines+1, min(p.np, 3)
	p.troubles += 3
	p.rounds += 6
	p.requests, p.holds, p.aborts, p.hurry = slices.DeleteFunc(p.requests, func(q request) bool { return !q.stop }), false, false, false
	for range 4 + rng.IntN(4) {
		p.requests = append(p.requests, request{at: 0.7*rng.Float64() - 0.1, wait: rng.Int64N(100 * int64(p.np)), mode: oob.ModeSelf})
	}
	slices.SortStableFunc(p.requests, func(a, b request) int { return cmp.Compare(a.at, b.at) })
}

func (w *world) newMemory() {
	w.memory = memory{policy: w.plan.memory, held: map[site]map[name]piece{}, making: map[int]*making{}}
}

// memoryEnds is the end of a job: keepers leave, and the next ones have nothing.
func (w *world) memoryEnds() {
	w.memory.job++
	clear(w.memory.making)
	w.store.committed = slices.DeleteFunc(w.store.committed, func(s snapshot) bool { return s.kept != nil })
}

func (w *world) holderOf(m *machine) site {
	switch {
	case w.breaks(staleMirror):
		return site{m: m}
	case m == nil:
		return site{nil, w.memory.job}
	}
	return site{m, m.connection}
}

// number is that of a snapshot in names of pieces. Mutant: all have the same.
func (w *world) number(seq int) int {
	if w.breaks(staleMirror) {
		return 0
	}
	return seq
}

// answers reports whether a holder is there.
func (w *world) answers(h site) bool {
	m := h.m
	return h == w.holderOf(m) && (m == nil || !m.given && !m.ended && !m.off)
}

func (w *world) hold(h site, n name, p piece) {
	n.seq = w.number(n.seq)
	if w.memory.held[h] == nil {
		w.memory.held[h] = map[name]piece{}
	}
	w.memory.held[h][n] = p
}

// has returns a piece of a holder that answers.
func (w *world) has(h site, n name) piece {
	n.seq = w.number(n.seq)
	if !w.answers(h) {
		return nil
	}
	return w.memory.held[h][n]
}

// makes begins a snapshot in memory.
func (w *world) makes(seq int) {
	k := &making{}
	for _, m := range append([]*machine{nil}, w.machines...) {
		if h := w.holderOf(m); w.answers(h) && (m == nil || !m.out) {
			k.p.Nodes = append(k.p.Nodes, protect.Node{})
			k.at = append(k.at, h)
		}
	}
	for r := range w.np {
		k.p.Of = append(k.p.Of, slices.Index(k.at, w.holderOf(w.of(r))))
	}
	var groups []protect.Group
	if k.broken = k.p.Check(); k.broken == nil {
		groups, k.broken = w.plan.memory.Groups(k.p)
	}
	k.Making = protect.NewMaking(w.np, groups)
	w.memory.making[seq] = k
}

// wrote is told that an image is whole on its rank's machine.
func (w *world) wrote(seq int, img *image) {
	k := w.memory.making[seq]
	if k == nil || k.p.Of[img.rank] < 0 {
		return
	}
	w.hold(k.at[k.p.Of[img.rank]], name{seq, img.rank, -1}, piece{img})
	group, ready := k.Wrote(img.rank)
	if !ready {
		return
	}
	for shard := range k.Groups[group].Shards {
		k.under++
		w.later(400, func() {
			k.under--
			if w.make(k, seq, &k.Groups[group], shard) {
				k.Made(group, shard)
			}
		})
	}
}

// make makes a copy or a shard.
func (w *world) make(k *making, seq int, g *protect.Group, shard int) bool {
	to, n := k.at[g.Shards[shard]], name{seq, g.Ranks[0], shard}
	if len(g.Ranks) == 1 {
		n.shard = -1
	}
	var of piece
	for _, r := range g.Ranks {
		from := k.at[k.p.Of[r]]
		img := w.has(from, name{seq, r, -1})
		if img == nil || !w.answers(to) {
			return false
		}
		for before := seq - 1; before > seq-4 && len(g.Ranks) > 1 && w.breaks(parityMixed) && r == g.Ranks[0]; before-- {
			if old := w.has(from, name{before, r, -1}); old != nil {
				img = old
				break
			}
		}
		of = append(of, img[0])
	}
	if w.breaks(staleMirror) && w.has(to, n) != nil {
		return true // it is there already
	}
	w.hold(to, n, of)
	w.seen.copies++
	return true
}

// commitInMemory commits a snapshot when its copies are made, or cannot be.
func (w *world) commitInMemory(a *ckpt.HeadAction) {
	k, life := w.memory.making[a.Seq], w.life()
	var try func()
	try = func() {
		if k.under > 0 && !w.breaks(toggledEarly) {
			w.later(30, try)
			return
		}
		ev := ckpt.HeadEvent{Type: ckpt.HvCommitFailed, Err: "an image was in the memory of a machine that is lost"}
		if len(w.lostOf(k)) == 0 {
			ev = w.commit(a.Seq)
		}
		if ev.Type == ckpt.HvCommitted {
			s := &w.store.committed[len(w.store.committed)-1]
			s.kept, s.weak = k, w.weak(k) && !w.breaks(toggledEarly)
			w.prunes()
		}
		delete(w.memory.making, a.Seq)
		w.feed(joblife.Event{Type: joblife.EvCkpt, Life: life, Ckpt: ev})
		w.storing(-1)
	}
	w.storing(+1)
	w.later(60, try)
}

// lostOf lists the ranks whose images of a snapshot cannot be had any more.
func (w *world) lostOf(k *making) []int {
	if k.p.Check() != nil {
		return k.p.Of // a rank's machine was lost when it began
	}
	return k.Lost(k.p, w.downOf(k))
}

// downOf tells the nodes of a snapshot that do not answer.
func (w *world) downOf(k *making) func(node int) bool {
	return func(n int) bool { return !w.answers(k.at[n]) }
}

// weak reports whether a snapshot has less than its policy wants.
func (w *world) weak(k *making) bool { return k.broken != nil || len(k.Lacks(w.downOf(k))) > 0 }

// prunes gives up the snapshots that are needed no more.
func (w *world) prunes() {
	var of []int
	var weak []bool
	for _, s := range w.store.committed {
		if s.kept != nil {
			of, weak = append(of, s.seq), append(weak, s.weak)
		}
	}
	for _, i := range protect.Superseded(weak) {
		w.logf("snapshot %d in memory is given up", of[i])
		w.seen.givenUp++
		w.store.committed = slices.DeleteFunc(w.store.committed, func(s snapshot) bool { return s.seq == of[i] })
		w.drops(of[i])
	}
}

// drops makes holders give up what they have of a snapshot.
func (w *world) drops(seq int) {
	for h, pieces := range w.memory.held {
		for n := range pieces {
			if n.seq == w.number(seq) && w.answers(h) && !w.breaks(staleMirror) && !w.breaks(joinerOther) {
				delete(pieces, n)
			}
		}
	}
}

// recall gathers the images of a snapshot in memory, nil if they cannot be had.
func (w *world) recall(s *snapshot) []*image {
	images := make([]*image, w.np)
	for r := range images {
		if images[r] = w.recallOne(s, r); images[r] == nil {
			w.promised(s, r)
			return nil
		}
	}
	for r, img := range images {
		if img != s.images[r] {
			w.violate("rank %d goes on from another image than that of snapshot %d", r, s.seq)
		}
	}
	return images
}

// promised checks that so much was lost that the policy does not promise the image.
func (w *world) promised(s *snapshot, r int) {
	lost := 0
	for _, h := range s.kept.at {
		if !w.answers(h) {
			lost++
		}
	}
	w.logf("rank %d's image of snapshot %d cannot be had: %d machines are lost, weak %v", r, s.seq, lost, s.weak)
	if !s.weak && lost <= w.plan.memory.Promise().Nodes {
		w.violate("%d machines are lost, policy %v promises as many, and rank %d's image of snapshot %d cannot be had", lost, w.plan.memory, r, s.seq)
	}
}

// recallOne returns the image of a rank: of its own machine, a copy, or what is left of its group gives it.
func (w *world) recallOne(s *snapshot, r int) *image {
	k, n := s.kept, name{s.seq, r, -1}
	own := k.at[k.p.Of[r]]
	if w.breaks(survivorStays) && w.answers(own) {
		img, _ := w.imageOf(w.ranks[r], false)
		return img
	}
	if p := w.has(own, n); p != nil {
		return p[0]
	}
	for _, h := range k.at {
		for other := w.store.seq; w.breaks(joinerOther) && other > 0; other-- {
			if p := w.has(h, name{other, r, -1}); p != nil && other != s.seq && p[0].self {
				return p[0]
			}
		}
		if p := w.has(h, n); p != nil {
			w.seen.joined++
			return p[0]
		}
	}
	return w.computes(s, r)
}

// computes computes an image of what is left of its group. Only a shard of the very images counts.
func (w *world) computes(s *snapshot, r int) (img *image) {
	k := s.kept
	g, left := &k.Groups[k.Of(r)], 0
	for shard, at := range g.Shards {
		p := w.has(k.at[at], name{s.seq, g.Ranks[0], shard})
		if p == nil || len(p) != len(g.Ranks) || !w.breaks(parityMixed) && slices.ContainsFunc(p, func(x *image) bool { return x != s.images[x.rank] }) {
			continue
		}
		left++
		img = p[slices.Index(g.Ranks, r)]
	}
	for _, x := range g.Ranks {
		if w.has(k.at[k.p.Of[x]], name{s.seq, x, -1}) != nil {
			left++
		}
	}
	if img == nil || left < len(g.Ranks) {
		return nil
	}
	w.seen.computed++
	return img
}
