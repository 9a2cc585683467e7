package head

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/alive"
	"github.com/gorun-mpi/gorun/internal/launch/program"
	"github.com/gorun-mpi/gorun/internal/launch/spec"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/lease"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// claim is this head's claim on the job, beside its snapshots; see snapshot.Claim. Every job that can be checkpointed has one, from before its
// ranks are started until nothing of it can act any more. A restart whose snapshot lies elsewhere than new ones go has one in both folders.
type claim struct {
	mu   sync.Mutex
	held []*snapshot.Claim
	goOn []func() // end what suspending has begun
}

// claimJob makes this head the only one that runs the job, or refuses. A job must never run twice: not beside a run that is known on this
// machine, nor beside one elsewhere that has a claim. Who chooses what happens to files (-files copy or keep) wants a second run.
func (h *head) claimJob() error {
	beside := h.opt.From != nil && h.opt.Files != whole.FilesRefuse
	if !beside {
		if err := h.noRival(); err != nil {
			return err
		}
	}
	if h.cat == nil {
		return nil
	}
	for _, c := range h.catalogues() {
		if err := h.claimIn(c, beside); err != nil {
			return err
		}
	}
	if h.opt.Still != nil {
		return h.opt.Still()
	}
	return nil
}

// catalogues are the folders of snapshots where the job may have a claim.
func (h *head) catalogues() []*snapshot.Catalogue {
	all := []*snapshot.Catalogue{h.cat}
	if from := h.opt.From; from != nil && filepath.Base(filepath.Dir(from.Dir)) == h.id {
		if c, err := snapshot.Open(filepath.Dir(filepath.Dir(from.Dir))); err == nil && c.Root() != h.cat.Root() {
			all = append(all, c)
		}
	}
	return all
}

// claimIn claims the job in a folder of snapshots. In one that can only be read it looks who else has the job. A new job that cannot have a
// claim can have no snapshots either: nobody can go on with it.
func (h *head) claimIn(c *snapshot.Catalogue, beside bool) error {
	own, err := c.Claim(h.id, h.claimant())
	if err != nil && h.opt.From == nil {
		return nil
	}
	var contest *snapshot.Contest
	if err != nil {
		contest = c.Watch(h.id)
	} else {
		h.claim.add(h, own)
		contest = own.Contest(h.opt.Latest)
	}
	if beside || h.opt.From == nil && !h.opt.Latest {
		if own != nil {
			err = own.Hold()
		}
		return err
	}
	rival, err := contest.Win(h.opt.Await, func(o snapshot.OtherClaim, left time.Duration) {
		h.say("the job's former gorun, on %s (pid %d), was last seen %v ago: its ranks have certainly ended in %v at most", o.Host, o.PID, o.Age.Round(time.Second), left.Round(time.Second))
	})
	if rival != nil {
		err = h.runsElsewhere(rival)
	}
	return err
}

// claimant describes this head.
func (h *head) claimant() snapshot.Claimant {
	return snapshot.Claimant{Host: wire.Hostname(), Process: alive.This(), Lease: h.opt.Terms().L.Milliseconds(), Line: h.line()}
}

// line is what -restart-latest knows the job by.
func (h *head) line() string {
	return program.Line(h.opt.Plan["name"], h.prog.Name, h.opt.Args, h.opt.Dir)
}

// runsElsewhere refuses to run the job because somebody else does.
func (h *head) runsElsewhere(o *snapshot.OtherClaim) error {
	what := "is running"
	switch {
	case o.Stopped:
		what = "is suspended"
	case !o.Held:
		what = "is just being started"
	}
	text := fmt.Sprintf("job %s %s under gorun on %s (pid %d)", o.Job, what, o.Host, o.PID)
	if o.Job != h.id {
		text += ", begun by the same line"
	}
	text += fmt.Sprintf(": end it there (gorun kill %s)", o.Job)
	if h.opt.From != nil && o.Job == h.id {
		text += ", or use -files copy to run it a second time, in copies of its files"
	}
	if o.Stopped {
		text += fmt.Sprintf("; if that machine is gone for good, remove %s", o.Path)
	}
	return errors.New(text)
}

// add keeps a claim from now on.
func (c *claim) add(h *head, own *snapshot.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held = append(c.held, own); len(c.held) == 1 {
		go h.touch()
	}
}

// stake makes the claim of a job that could have none at its start, before its first snapshot.
func (h *head) stake() error {
	h.claim.mu.Lock()
	has := len(h.claim.held) > 0
	h.claim.mu.Unlock()
	if has {
		return nil
	}
	own, err := h.cat.Claim(h.id, h.claimant())
	if err != nil {
		return err
	}
	h.claim.add(h, own)
	return own.Hold()
}

// touch keeps the claims until the job has ended, and ends the job if one was taken. Other errors are those
// of a folder that cannot be reached just now.
func (h *head) touch() {
	t := time.NewTicker(snapshot.ClaimEvery)
	defer t.Stop()
	for {
		select {
		case <-h.done:
			return
		case <-t.C:
			if err := h.taken(); err != nil {
				h.post(func() { h.lostJob(err) })
				return
			}
		}
	}
}

// lostJob ends what this head still has of the job.
func (h *head) lostJob(why error) {
	h.finish(verdict{Code: spec.ExitFailed, Rank: -1, Text: why.Error()}, false)
}

// leases reports whether ranks on the head's own node have a lease, too: another head may take this one's place while it
// stands still.
func (h *head) leases() bool { return h.fleet != nil && h.cat != nil }

// grantOwn renews the leases of the present life's agents on this node. It runs in the loop: a head that stands still
// grants nothing.
func (h *head) grantOwn() {
	if h.inc != nil {
		for _, l := range h.inc.links {
			h.grant(l)
		}
	}
}

func (h *head) grant(l *link) {
	if l.own && h.leases() {
		l.out.Send(oob.Msg{Kind: oob.Grant, From: oob.Head, To: oob.AgentAddr(l.index), A: uint64(lease.Now() + h.opt.Terms().L.Milliseconds())})
	}
}

// taken reports that another head has taken the job. Errors of a folder that cannot be reached just now do not count.
func (h *head) taken() error {
	h.claim.mu.Lock()
	held := h.claim.held
	h.claim.mu.Unlock()
	for _, c := range held {
		if err := c.Touch(); errors.Is(err, snapshot.ErrTaken) {
			return err
		}
	}
	return nil
}

// claimsStand says in the claims that this process is about to be stopped, and not to be outlived.
func (h *head) claimsStand() {
	h.claim.mu.Lock()
	defer h.claim.mu.Unlock()
	for _, c := range h.claim.held {
		if goOn, err := c.Stop(); err == nil {
			h.claim.goOn = append(h.claim.goOn, goOn)
		}
	}
}

// claimsGoOn takes that back.
func (h *head) claimsGoOn() {
	h.claim.mu.Lock()
	defer h.claim.mu.Unlock()
	for _, goOn := range h.claim.goOn {
		goOn()
	}
	h.claim.goOn = nil
}

// yield gives the claims up, when nothing of the job can act any more.
func (h *head) yield() {
	h.claim.mu.Lock()
	defer h.claim.mu.Unlock()
	for _, c := range h.claim.held {
		if err := c.Close(); err != nil {
			h.say("%v", err)
		}
	}
	h.claim.held = nil
}
