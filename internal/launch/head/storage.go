package head

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/joblife"
	"github.com/gorun-mpi/gorun/internal/launch/control"
	"github.com/gorun-mpi/gorun/internal/launch/spec"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// storage is the state of an incarnation's snapshots. Goroutines work on the disk and post their
// results to the loop.
type storage struct {
	phase   string // of the running attempt, "" without one
	pending map[int]*pending
	last    *control.Report // of the newest checkpoint
}

// pending is a snapshot being written.
type pending struct {
	*snapshot.Pending
	keep  func() error // stores the program beside it, once
	early bool         // keep was begun with the snapshot

	copies *mirroring // of images in memory; nil: they go elsewhere
	spare  int        // a number for what is merged of it and others; 0: none
}

// commit is a committed snapshot of this job's own chain: one that this head
// took, or the one that it started from.
type commit struct {
	snap *snapshot.Snapshot
	hold *snapshot.Hold // keeps it from being pruned; nil: it may go
	weak bool           // in memory, with fewer copies than the policy wants

	lacks lacking
	spare int // as in pending

	input inputAt
	lines int // that the ranks had printed
}

func (c *commit) release() {
	c.hold.Release()
	c.hold = nil
}

// openStore opens the catalogue of snapshots and takes hold of the one that
// the job starts from.
func (h *head) openStore() error {
	if h.opt.CR == "" && h.opt.From == nil {
		return nil
	}
	var err error
	if h.cat, err = snapshot.Open(h.opt.CkptDir); err != nil {
		return err
	}
	h.cat.Stores(h.openPlace)
	if err := h.lookAtPlaces(); err != nil {
		return err
	}
	for _, s := range append(h.opt.Older, h.opt.From) {
		if s != nil {
			s.Through(h.openPlace)
		}
	}
	if h.opt.CR != "" {
		if err := writable(h.opt.CkptDir); err != nil {
			h.say("warning: checkpoints will fail, no snapshot can be stored in %s: %v; choose another folder with -ckpt-dir", h.opt.CkptDir, err)
		}
	}
	if from := h.opt.From; from != nil {
		hold, err := from.Hold()
		if err != nil {
			return err
		}
		h.chain = []commit{{snap: from, hold: hold, input: beginning(from)}}
	}
	return nil
}

// writable finds out whether snapshots can be stored, before the first checkpoint, which may be
// hours away. It makes nothing: a job may never need the folder.
func writable(dir string) error {
	for {
		st, err := os.Stat(dir)
		parent := filepath.Dir(dir)
		switch {
		case (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)) && parent != dir:
			dir = parent // would be made
			continue
		case err != nil:
			return err
		case !st.IsDir():
			return fmt.Errorf("%s is not a folder", dir)
		}
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("%s is not writable: %w", dir, err)
		}
		return nil
	}
}

// work runs f outside the loop and done, with its result, in it. The incarnation is not over before
// that.
func work[T any](inc *incarnation, f func() (T, error), done func(T, error)) {
	h := inc.h
	storing := func(n int) {
		h.works += n
		h.feed(joblife.Event{Type: joblife.EvStoring, Works: h.works})
	}
	storing(+1)
	go func() {
		v, err := f()
		h.post(func() {
			done(v, err)
			storing(-1)
		})
	}()
}

func (inc *incarnation) beginFolder(lasting bool) {
	h := inc.h
	place, name := h.placeFor(lasting)
	spare := 0
	work(inc, func() (*snapshot.Pending, error) {
		p, err := h.cat.BeginIn(h.id, place, h.nodeNames())
		if err == nil {
			err = h.stake()
			if err == nil && len(h.opt.Levels) > 0 {
				spare, err = h.cat.Reserve(h.id)
			}
			if err != nil {
				err = errors.Join(err, p.Discard())
			}
		}
		return p, err
	}, func(p *snapshot.Pending, err error) {
		if err != nil {
			inc.step(ckpt.HeadEvent{Type: ckpt.HvFolderFailed, Lasting: lasting, Err: h.withRemedy(err).Error()})
			return
		}
		if inc.store.pending == nil {
			inc.store.pending = map[int]*pending{}
		}
		inc.store.pending[p.Seq] = inc.keepEarly(p)
		inc.store.pending[p.Seq].spare = spare
		if name == wire.StoreMem {
			inc.store.pending[p.Seq].copies = inc.mirror(setOf(p))
		}
		inc.step(ckpt.HeadEvent{Type: ckpt.HvFolder, Lasting: lasting, Store: name, Folder: setOf(p), Seq: p.Seq})
	})
}

// keepEarly has the program stored while the ranks are imaged, if it is certain
// that their images will need it.
func (inc *incarnation) keepEarly(s *snapshot.Pending) *pending {
	p := &pending{Pending: s, early: inc.h.opt.Mode() == oob.ModeNative}
	parts := inc.h.parts
	if inc.wholeFrom() {
		parts = nil // those are kept that the images had
	}
	p.keep = sync.OnceValue(func() error {
		err := inc.h.prog.Keep(s)
		for _, part := range parts {
			err = errors.Join(err, part.KeepBeside(s))
		}
		return err
	})
	if p.early { // an error is told by the commit
		work(inc, func() (struct{}, error) { return struct{}{}, p.keep() }, func(struct{}, error) {})
	}
	return p
}

// Discard waits for what was begun.
func (p *pending) Discard() error {
	p.copies.giveUp()
	if p.early {
		p.keep()
	}
	return p.Pending.Discard()
}

func (inc *incarnation) discard(seq int) {
	p := inc.store.pending[seq]
	if p == nil {
		return
	}
	delete(inc.store.pending, seq)
	work(inc, func() (struct{}, error) { return struct{}{}, p.Discard() }, func(_ struct{}, err error) {
		switch {
		case err == nil:
		case p.copies != nil && errors.Is(err, store.ErrUnreachable): // a node that is lost has nothing left
			inc.h.memory.left = true
			inc.h.verbose("%v", err)
		default:
			inc.h.say("%v; gorun snapshots removes it later", err)
		}
	})
}

// commit makes the snapshot whole. It is brought to its end, whatever happens to the ranks
// meanwhile.
func (inc *incarnation) commit(a *ckpt.HeadAction) {
	h, seq, images := inc.h, a.Seq, a.Images
	p := inc.store.pending[seq]
	schema, input, from := inc.schema(a.Mode, images, p.copies != nil), inc.inputNow(a.Mode), inc.from
	work(inc, func() (c commit, err error) {
		if p.copies != nil {
			weak, err := p.copies.settle(images)
			if err != nil {
				return c, err
			}
			c.lacks = weak
			c.weak = len(weak) > 0
		}
		if schema.Program.Digest, err = h.prog.Sum(); err != nil {
			return c, err
		}
		if a.Mode == oob.ModeSelf {
			schema.Point, err = pointOf(p.Pending, images)
		} else {
			err = p.keep()
			if err == nil && from != nil {
				err = p.KeepLibraries(from) // they may be mapped
			}
			if err == nil && h.opt.Files == whole.FilesRefuse {
				_, err = spec.SharedIn(schema.Backend, piecesOf(p.Pending, images))
			}
		}
		if err != nil {
			return c, err
		}
		h.streams.Do(h.noteStreams)
		c.snap, c.hold, err = p.Commit(schema)
		c.input, c.spare = input, p.spare
		return c, err
	}, func(c commit, err error) {
		if err != nil {
			inc.step(ckpt.HeadEvent{Type: ckpt.HvCommitFailed, Err: h.withRemedy(err).Error()})
			return
		}
		delete(inc.store.pending, seq)
		h.levels.base.add([]*snapshot.Snapshot{c.snap}, inc.gate.ago())
		inc.measure(images, a.Mode == oob.ModeSelf)
		h.committed(c)
		h.protected(p.copies, &c, images)
		inc.step(ckpt.HeadEvent{Type: ckpt.HvCommitted})
		inc.prune()
	})
}

// committed makes c the newest of the chain; the one before may be pruned. What is in memory is held until it is given up: by
// that others know that its job is not over.
func (h *head) committed(c commit) {
	for i := range h.chain {
		if !inMemory(h.chain[i].snap) {
			h.chain[i].release()
		}
	}
	c.lines = h.printed.captured
	h.chain = append(h.chain, c)
	h.keepInput()
	h.commits++
	h.verbose("checkpoint: committed %s", c.snap.SchemaPath())
}

// finished notes that the job has ended well, so that "latest" no longer means it.
func (h *head) finished() {
	if len(h.chain) == 0 {
		return
	}
	newest := slices.MaxFunc(h.chain, func(a, b commit) int { return cmp.Compare(a.snap.Schema.Sequence, b.snap.Schema.Sequence) })
	if err := newest.snap.Finish(); err != nil {
		h.say("gorun restart latest may go on from this job although it has finished: %v", err)
	}
	if h.opt.KeepAsked && len(h.opt.Levels) == 0 {
		for i := range h.chain {
			h.chain[i].release()
		}
		h.tidy(h.removeUnasked)
	}
}

// removeUnasked is called beside the loop.
func (h *head) removeUnasked() func() {
	_, err := h.cat.RemoveUnasked(h.id)
	return func() {
		if err != nil {
			h.say("snapshots of this job, which has ended well, are left: %v", err)
		}
	}
}

// schema describes the snapshot that is being taken, without what takes time
// to find out.
func (inc *incarnation) schema(mode uint64, images []oob.ImageInfo, memory bool) snapshot.Schema {
	o := &inc.h.opt
	s := snapshot.Schema{
		Incarnation: wire.ID(inc.id), Created: inc.h.now(), NP: o.NP, Backend: wire.BackendSelf, CR: o.CR, Transport: strings.Join(inc.h.job.Transports().Names(), ","),
		RPI: o.RPI, Params: keptParams(o.Params),
		Gate:  int64(inc.gate.so()),
		Input: inc.inputRead(), Plan: o.Plan, Printed: inc.printedAt(),
		Program: snapshot.Program{Path: inc.h.prog.Name, Dir: o.Dir, Args: o.Args, Env: spec.KeptEnv(o.Env, o.KeepEnv)},
	}
	if mode == oob.ModeNative {
		s.Backend = spec.ImagerName(o.CR)
	}
	if inc.from != nil {
		f := inc.from.Schema
		s.Lineage = append(slices.Clone(f.Lineage), snapshot.Ancestor{Incarnation: f.Incarnation, Sequence: f.Sequence})
	}
	for rank, im := range images {
		r := inc.h.job.Rank(rank)
		s.Placement = append(s.Placement, snapshot.Placement{Rank: rank, Agent: r.Agent, Host: r.Host})
		s.Images = append(s.Images, snapshot.Image{Rank: rank, File: im.File, Size: im.Size, Digest: im.Digest, Codec: im.Codec, Base: im.Base, Raw: im.Raw, Pause: im.Pause, Node: inc.wroteOn(r.Agent, memory)})
	}
	return s
}

// wroteOn is the node on which an agent writes images, "" if all nodes see them.
func (inc *incarnation) wroteOn(agent int, memory bool) string {
	if inc.h.opt.CkptLocal == "" && !memory {
		return ""
	}
	return inc.links[agent].agent.Host()
}

// keptParams picks what a snapshot keeps of a job's parameters: all but those that
// say where its ranks are, which a restart is told anew.
func keptParams(params map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range params {
		if !strings.HasPrefix(name, "job.") {
			kept[name] = value
		}
	}
	return kept
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

// answered answers a request.
func (inc *incarnation) answered(d *ckpt.Done) {
	h := inc.h
	if d.Err != "" {
		inc.store.phase = ""
		inc.written()
		h.levels.base.failed++
		h.failed(d.Err)
		h.verbose("checkpoint: failed: %s", d.Err)
		h.reply(d, nil, errors.New(d.Err))
		return
	}
	inc.store.phase = ""
	inc.store.last = h.report(d)
	h.worked()
	if r, waits := h.waiters.byID[d.ID]; waits && !r.periodic {
		s := h.chain[len(h.chain)-1].snap
		work(inc, func() (struct{}, error) { return struct{}{}, s.Ask() }, func(_ struct{}, err error) {
			if err != nil {
				h.say("it may be removed like one that nobody has asked for: %v", err)
			}
		})
	}
	h.reply(d, inc.store.last, nil)
}

// reply tells whoever has asked for a checkpoint; those of due Points nobody has asked for.
func (h *head) reply(d *ckpt.Done, rep *control.Report, err error) {
	if d.ID == ckpt.OwnRequest {
		h.tellPeriodic(err)
		return
	}
	h.waiters.answer(d.ID, rep, err)
}
