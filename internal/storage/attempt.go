package storage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// An attempt is a place for the images of a checkpoint. A commit makes a snapshot of them.

// Attempt is where the images of a checkpoint go.
type Attempt struct {
	Seq   int
	Store string // its name in orders to agents
	Set   string

	files store.Pather // nil: they are not files that all nodes see
}

// Image describes an image of the attempt with which a rank goes on elsewhere. node is the one
// where it was written.
func (a *Attempt) Image(im oob.ImageInfo, node string) wire.Image {
	if a.files != nil {
		if path, err := a.files.Path(a.Set, im.File); err == nil {
			return wire.Image{Seq: a.Seq, Path: rawstring.String(path)}
		}
	}
	return wire.Image{Seq: a.Seq, Store: wire.StoreTo, Set: a.Set, Piece: im.File, Digest: im.Digest, Node: node}
}

// pending is a snapshot being written.
type pending struct {
	*snapshot.Pending
	life  int
	keep  func() error // stores the program beside it, once
	early bool         // keep was begun with the snapshot

	copies *mirroring // of images in memory; nil: the images go elsewhere
	spare  int        // a number reserved for a snapshot merged from it and others; 0: none
}

// commit is a committed snapshot of this job's own chain: one that this head
// took, or the one that it started from.
type commit struct {
	snap *snapshot.Snapshot
	hold *snapshot.Hold // keeps it from being pruned; nil: it may go
	weak bool           // in memory, with fewer copies than the policy wants
	note any            // the head's

	lacks lacking
	spare int // as in pending
}

func (c *commit) release() {
	c.hold.Release()
	c.hold = nil
}

// Begin makes a place for the images of an attempt. A lasting one outlives the job. parts are the programs that
// ranks have become; images of whole processes need them.
func (sv *Service) Begin(lasting bool, parts []*program.Program, done func(Attempt, error)) {
	place, name := sv.placeFor(lasting)
	spare := 0
	work(sv, func() (*snapshot.Pending, error) {
		p, err := sv.cat.BeginIn(sv.id, place, sv.NodeNames())
		if err == nil {
			err = sv.stake()
			if err == nil && len(sv.opt.Levels) > 0 {
				spare, err = sv.cat.Reserve(sv.id)
			}
			if err != nil {
				err = errors.Join(err, p.Discard())
			}
		}
		return p, err
	}, func(p *snapshot.Pending, err error) {
		if err != nil {
			done(Attempt{}, err)
			return
		}
		now := sv.keepEarly(p, parts)
		now.life, now.spare = sv.lineup.Life, spare
		if name == wire.StoreMem {
			now.copies = sv.mirror(setOf(p))
		}
		if sv.pending == nil {
			sv.pending = map[int]*pending{}
		}
		sv.pending[p.Seq] = now
		a := Attempt{Seq: p.Seq, Store: name, Set: setOf(p)}
		if st, _ := p.Images(); sv.beside() {
			a.files, _ = st.(store.Pather)
		}
		done(a, nil)
	})
}

// keepEarly stores the program while the ranks are imaged, if their images will
// certainly need it.
func (sv *Service) keepEarly(s *snapshot.Pending, parts []*program.Program) *pending {
	p := &pending{Pending: s, early: sv.opt.Mode() == oob.ModeNative}
	p.keep = sync.OnceValue(func() error {
		err := sv.prog.Keep(s)
		for _, part := range parts {
			err = errors.Join(err, part.KeepBeside(s))
		}
		return err
	})
	if p.early { // the commit reports an error
		work(sv, func() (struct{}, error) { return struct{}{}, p.keep() }, func(struct{}, error) {})
	}
	return p
}

// Wrote says that a rank of a life has written its image: copies of one in memory can be made.
func (sv *Service) Wrote(life, rank int, info oob.ImageInfo) {
	for _, p := range sv.pending {
		if p.life == life && p.copies != nil {
			p.copies.start(rank, info)
		}
	}
}

// Discard waits for what was begun.
func (p *pending) Discard() error {
	p.copies.giveUp()
	if p.early {
		p.keep()
	}
	return p.Pending.Discard()
}

// Discard removes an attempt that is not committed.
func (sv *Service) Discard(seq int) {
	p := sv.pending[seq]
	if p == nil {
		return
	}
	delete(sv.pending, seq)
	work(sv, func() (struct{}, error) { return struct{}{}, p.Discard() }, func(_ struct{}, err error) {
		switch {
		case err == nil:
		case p.copies != nil && errors.Is(err, store.ErrUnreachable): // a lost node has nothing left
			sv.memory.left = true
			sv.verbose("%v", err)
		default:
			sv.say("%v; gorun snapshots removes it later", err)
		}
	})
}

// Written is an attempt whose images are all written, with the head's facts about it.
type Written struct {
	Seq    int
	Schema snapshot.Schema // without facts that take time to find out, and without the nodes of images
	Images []oob.ImageInfo
	From   *snapshot.Snapshot // what the life began with; nil: the start
	Began  time.Time          // when the ranks stopped
	Note   any                // see Kept
}

// Commit makes a snapshot whole. It runs to its end, even if the ranks die meanwhile.
func (sv *Service) Commit(w Written, done func(error)) {
	p := sv.pending[w.Seq]
	if sv.opt.CkptLocal != "" || p.copies != nil { // otherwise all nodes see them
		for i := range w.Schema.Images {
			w.Schema.Images[i].Node = w.Schema.Placement[i].Host
		}
	}
	work(sv, func() (commit, error) { return sv.commitNow(p, &w) }, func(c commit, err error) {
		if err != nil {
			done(err)
			return
		}
		delete(sv.pending, w.Seq)
		sv.levels.base.add([]*snapshot.Snapshot{c.snap}, time.Since(w.Began))
		sv.committed(c)
		sv.protected(p.copies, &c, w.Images)
		done(nil)
		sv.prune()
	})
}

// commitNow is called beside the head's goroutine.
func (sv *Service) commitNow(p *pending, w *Written) (c commit, err error) {
	if p.copies != nil {
		weak, err := p.copies.settle(w.Images)
		if err != nil {
			return c, err
		}
		c.lacks = weak
		c.weak = len(weak) > 0
	}
	if w.Schema.Program.Digest, err = sv.prog.Sum(); err != nil {
		return c, err
	}
	if w.Schema.Backend == wire.BackendSelf {
		w.Schema.Point, err = pointOf(p.Pending, w.Images)
	} else {
		err = p.keep()
		if err == nil && w.From != nil {
			err = p.KeepLibraries(w.From) // they may be mapped
		}
		if err == nil && sv.opt.Files == whole.FilesRefuse {
			_, err = spec.SharedIn(w.Schema.Backend, piecesOf(p.Pending, w.Images))
		}
	}
	if err != nil {
		return c, err
	}
	sv.streams.note(sv)
	c.snap, c.hold, err = p.Commit(w.Schema)
	c.note, c.spare = w.Note, p.spare
	return c, err
}

// committed makes c the newest of the chain; the one before may be pruned. A snapshot in memory is
// held until it is given up: the hold shows others that its job is not over.
func (sv *Service) committed(c commit) {
	for i := range sv.chain {
		if !InMemory(sv.chain[i].snap) {
			sv.chain[i].release()
		}
	}
	sv.chain = append(sv.chain, c)
	sv.keeps()
	sv.commits++
	sv.verbose("checkpoint: committed %s", c.snap.SchemaPath())
}

// Failed counts an attempt that has failed.
func (sv *Service) Failed() { sv.levels.base.failed++ }

// Asked records that the newest snapshot was requested: it stays longer than others.
func (sv *Service) Asked() {
	s := sv.newest()
	work(sv, func() (struct{}, error) { return struct{}{}, s.Ask() }, func(_ struct{}, err error) {
		if err != nil {
			sv.say("it may be removed like one that nobody has asked for: %v", err)
		}
	})
}

// Kept is a snapshot that can be restarted from, with the head's note. A merged snapshot has the
// note of the one whose state it has.
type Kept struct {
	*snapshot.Snapshot
	Note any
}

// keeps tells the head which snapshots can be restarted from.
func (sv *Service) keeps() {
	var all []Kept
	for i := range sv.chain {
		all = append(all, Kept{sv.chain[i].snap, sv.chain[i].note})
	}
	sv.head.Kept(all)
}

// newest is the newest snapshot of the own chain, nil if there is none.
func (sv *Service) newest() *snapshot.Snapshot {
	if len(sv.chain) == 0 {
		return nil
	}
	return sv.chain[len(sv.chain)-1].snap
}

// Finish records that the job has ended well, so that "latest" no longer means it.
func (sv *Service) Finish() {
	if len(sv.chain) == 0 {
		return
	}
	newest := slices.MaxFunc(sv.chain, func(a, b commit) int { return cmp.Compare(a.snap.Schema.Sequence, b.snap.Schema.Sequence) })
	if err := newest.snap.Finish(); err != nil {
		sv.say("gorun restart latest may go on from this job although it has finished: %v", err)
	}
	if sv.opt.KeepAsked && len(sv.opt.Levels) == 0 {
		for i := range sv.chain {
			sv.chain[i].release()
		}
		sv.tidy(sv.removeUnasked)
	}
}

// removeUnasked is called beside the head's goroutine.
func (sv *Service) removeUnasked() func() {
	_, err := sv.cat.RemoveUnasked(sv.id)
	return func() {
		if err != nil {
			sv.say("snapshots of this job, which has ended well, are left: %v", err)
		}
	}
}

// pointOf reads the number of the Point from the first image.
func pointOf(p *snapshot.Pending, images []oob.ImageInfo) (uint64, error) {
	r, err := piecesOf(p, images[:1])[0].Open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return r.Meta().Point, nil
}

// piecesOf are the images of a snapshot that is not committed yet.
func piecesOf(p *snapshot.Pending, images []oob.ImageInfo) (all []image.Source) {
	st, set := p.Images()
	for _, im := range images {
		all = append(all, image.Piece{Context: context.Background(), Store: st, Set: set, Name: im.File})
	}
	return all
}

// setOf is the set of a snapshot in the store that images go into.
func setOf(p *snapshot.Pending) string {
	_, set := p.Images()
	return set
}
