package head

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage"
)

// The head's side of package storage: what the service learns of the job, and how its results are
// handled.

// attempts is what an incarnation knows of its checkpoints.
type attempts struct {
	phase string                  // of the running attempt, "" without one
	last  *control.Report         // of the newest checkpoint
	bySeq map[int]storage.Attempt // those that are under way
}

// mark is what the head notes of a snapshot.
type mark struct {
	input inputAt
	lines int // that the ranks had printed
}

// openStorage prepares the storage of snapshots.
func (h *head) openStorage() (err error) {
	h.storage, err = storage.New(storage.Config{
		Job: h.id, Options: &h.opt, Program: &h.prog, Line: h.line(), Head: listener{h},
		Note: mark{input: beginning(h.opt.From)},
	})
	return err
}

// claimJob makes this head the only one that runs the job, or refuses. A job must never run twice: not beside a run that is known on this
// machine, nor beside one elsewhere that has a claim. A user who chooses what happens to files (-files copy or keep) wants a second run.
func (h *head) claimJob() error {
	beside := h.opt.From != nil && h.opt.Files != whole.FilesRefuse
	if !beside {
		if err := h.noRival(); err != nil {
			return err
		}
	}
	return h.storage.Claim(beside)
}

// openPlaces tells the storage which nodes there are.
func (h *head) openPlaces() error {
	var nodes storage.Nodes
	if h.fleet != nil {
		nodes = h.fleet
	}
	return h.storage.Open(nodes)
}

// endStorage finishes copies and removals when the loop has ended.
func (h *head) endStorage() {
	h.storage.End(storage.Ending{GoesOn: h.result.Code != 0 || h.result.Last > 0, Now: h.job.Obeyed(), GiveUp: h.ending})
}

// tend starts making lost copies in memory again, if nothing prevents it.
func (h *head) tend() {
	if h.inc != nil && h.job.Steady() && h.job.Idle() {
		h.storage.Tend()
	}
}

// lookAfter starts making all lost images again, if nothing prevents it.
func (h *head) lookAfter() {
	h.tend()
	if h.inc != nil && h.job.Steady() && !h.job.Busy() {
		h.storage.Mend()
	}
}

// closeMemory ends what is in memory.
func (h *head) closeMemory() { h.storage.CloseMemory(h.result.Code != 0 && h.result.Last == 0) }

// listener is the head as the storage sees it.
type listener struct{ h *head }

func (l listener) Post(f func())         { l.h.post(f) }
func (l listener) Done() <-chan struct{} { return l.h.done }
func (l listener) Say(line string)       { l.h.say("%s", line) }
func (l listener) Works(n int)           { l.h.feed(joblife.Event{Type: joblife.EvStoring, Works: n}) }
func (l listener) Copying()              { l.h.inc.copies() }
func (l listener) Taken(why error)       { l.h.lostJob(why) }
func (l listener) Kept(all []storage.Kept) {
	l.h.kept = all
	l.h.keepInput()
}
func (l listener) Beside(copying, tending bool) {
	l.h.copying, l.h.tending = copying, tending
	l.h.inc.phase()
}
func (l listener) Copied(level int, c storage.Cost) {
	l.h.inc.whenTold(func() { l.h.measureCopy(level, c) })
}

// lostJob ends the job here because another head has taken it over.
func (h *head) lostJob(why error) {
	h.finish(verdict{Code: spec.ExitFailed, Rank: -1, Text: why.Error()}, false)
}

// lineUp tells the storage where the ranks are.
func (inc *incarnation) lineUp() {
	l := storage.Lineup{Life: inc.n, Nodes: make([]string, inc.h.opt.NP)}
	for _, k := range inc.links {
		for _, rank := range k.ranks {
			l.Nodes[rank] = k.agent.Host()
		}
	}
	inc.h.storage.Lineup(l)
}

// beginFrom changes the snapshot that the first life begins from.
func (inc *incarnation) beginFrom(s *snapshot.Snapshot) error {
	if s == inc.h.opt.From {
		return nil
	}
	if err := inc.h.storage.BeginFrom(s, mark{input: beginning(s)}); err != nil {
		return err
	}
	inc.from, inc.source = s, inc.h.storage.Source(s)
	return nil
}

// markOf is the head's note of a snapshot that can be restarted from.
func (h *head) markOf(s *snapshot.Snapshot) (m mark, known bool) {
	for _, k := range h.kept {
		if s != nil && k.Dir == s.Dir {
			return k.Note.(mark), true
		}
	}
	return m, false
}

// newest is the newest snapshot that can be restarted from, nil if there is none.
func (h *head) newest() *snapshot.Snapshot {
	if len(h.kept) == 0 {
		return nil
	}
	return h.kept[len(h.kept)-1].Snapshot
}

// beginFolder prepares the place for the images of an attempt.
func (inc *incarnation) beginFolder(lasting bool) {
	parts := inc.h.parts
	if inc.wholeFrom() {
		parts = nil // the images keep their own parts
	}
	inc.h.storage.Begin(lasting, parts, func(a storage.Attempt, err error) {
		if err != nil {
			inc.step(ckpt.HeadEvent{Type: ckpt.HvFolderFailed, Lasting: lasting, Err: inc.h.withRemedy(err).Error()})
			return
		}
		if inc.store.bySeq == nil {
			inc.store.bySeq = map[int]storage.Attempt{}
		}
		inc.store.bySeq[a.Seq] = a
		inc.step(ckpt.HeadEvent{Type: ckpt.HvFolder, Lasting: lasting, Store: a.Store, Folder: a.Set, Seq: a.Seq})
	})
}

// wrote handles a rank's report on its image.
func (inc *incarnation) wrote(m *oob.Msg) {
	var info oob.ImageInfo
	if json.Unmarshal(m.Data, &info) == nil {
		inc.h.storage.Wrote(inc.n, int(m.From), info)
	}
}

// commit makes the snapshot whole.
func (inc *incarnation) commit(a *ckpt.HeadAction) {
	h, images := inc.h, a.Images
	h.storage.Commit(storage.Written{
		Seq: a.Seq, Schema: inc.schema(a.Mode, images), Images: images, From: inc.from, Began: inc.gate.began(),
		Note: mark{input: inc.inputNow(a.Mode), lines: h.printed.captured},
	}, func(err error) {
		if err != nil {
			inc.step(ckpt.HeadEvent{Type: ckpt.HvCommitFailed, Err: h.withRemedy(err).Error()})
			return
		}
		delete(inc.store.bySeq, a.Seq)
		h.commits++
		inc.measure(images, a.Mode == oob.ModeSelf)
		inc.step(ckpt.HeadEvent{Type: ckpt.HvCommitted})
	})
}

// schema describes the snapshot that is being taken, without facts that take
// time to find out.
func (inc *incarnation) schema(mode uint64, images []oob.ImageInfo) snapshot.Schema {
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
		s.Images = append(s.Images, snapshot.Image{Rank: rank, File: im.File, Size: im.Size, Digest: im.Digest, Codec: im.Codec, Base: im.Base, Raw: im.Raw, Pause: im.Pause})
	}
	return s
}

// keptParams picks what a snapshot keeps of a job's parameters: all but those that
// say where its ranks are, which a restart is told again.
func keptParams(params map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range params {
		if !strings.HasPrefix(name, "job.") {
			kept[name] = value
		}
	}
	return kept
}

// answered answers a request.
func (inc *incarnation) answered(d *ckpt.Done) {
	h := inc.h
	inc.store.phase = ""
	if d.Err != "" {
		inc.written()
		h.storage.Failed()
		h.failed(d.Err)
		h.verbose("checkpoint: failed: %s", d.Err)
		h.reply(d, nil, errors.New(d.Err))
		return
	}
	inc.store.last = h.report(d)
	h.worked()
	if r, waits := h.waiters.byID[d.ID]; waits && !r.periodic {
		h.storage.Asked()
	}
	h.reply(d, inc.store.last, nil)
}

// reply answers the request for a checkpoint. A checkpoint of a due Point has no request.
func (h *head) reply(d *ckpt.Done, rep *control.Report, err error) {
	if d.ID == ckpt.OwnRequest {
		h.tellPeriodic(err)
		return
	}
	h.waiters.answer(d.ID, rep, err)
}

// choose finds the state that a restart goes on from: the newest sound snapshot, or
// the start if no snapshot was taken. Snapshots that were passed over come last.
func (h *head) choose(left []int) {
	if err := h.canPlace(); err != nil {
		h.say("no restart: %v", err)
		h.short = true
		h.feed(joblife.Event{Type: joblife.EvChosen, Refused: true})
		return
	}
	usable := func(note any) error {
		m := note.(mark)
		return h.canRead(&m.input)
	}
	h.storage.Choose(left, h.inc.from, usable, func(c storage.Choice, err error) {
		ev := joblife.Event{Type: joblife.EvChosen}
		switch h.next = c.From; {
		case err != nil: // this head may have stood still
			h.lostJob(err)
			ev.Refused = true
		case c.From != nil:
			ev.Snapshot = c.From.Schema.Sequence
		default:
			ev.Refused = c.Any && h.opt.From != nil // its beginning is a snapshot that is damaged
			if start := beginning(nil); !ev.Refused && h.canRead(&start) != nil {
				ev.Refused = true
				h.say("the job cannot start over: %v", h.canRead(&start))
			}
		}
		h.feed(ev)
	})
}

// tail tells the user what the restart has cut off an output file, and notes it for gorun snapshots
// -tails.
func (inc *incarnation) tail(m *oob.Msg) {
	path := string(m.Data)
	inc.h.say("rank %d: what was written after the checkpoint is taken out of the file and kept in %s", m.From, path)
	inc.h.storage.AddTail(path)
}
