package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/alive"
)

// claim is this head's claim on the job, beside its snapshots; see snapshot.Claim. Every job that
// can be checkpointed has one, from before its ranks are started until no process of it can act any
// more. A restart whose snapshot lies in another folder than new ones has a claim in both.
type claim struct {
	mu   sync.Mutex
	held []*snapshot.Claim
	goOn []func() // undo Stands
}

// Claim makes this head the only one that runs the job, or refuses: the job may run elsewhere. beside says that a second run is wanted.
func (sv *Service) Claim(beside bool) error {
	if sv.cat == nil {
		return nil
	}
	for _, c := range sv.catalogues() {
		if err := sv.claimIn(c, beside); err != nil {
			return err
		}
	}
	if sv.opt.Still != nil {
		return sv.opt.Still()
	}
	return nil
}

// catalogues are the folders of snapshots where the job may have a claim.
func (sv *Service) catalogues() []*snapshot.Catalogue {
	all := []*snapshot.Catalogue{sv.cat}
	if from := sv.opt.From; from != nil && filepath.Base(filepath.Dir(from.Dir)) == sv.id {
		if c, err := snapshot.Open(filepath.Dir(filepath.Dir(from.Dir))); err == nil && c.Root() != sv.cat.Root() {
			all = append(all, c)
		}
	}
	return all
}

// claimIn claims the job in a folder of snapshots. In a read-only folder it only looks for claims
// of others. A new job that cannot have a claim cannot have snapshots either: no other head can go
// on with it.
func (sv *Service) claimIn(c *snapshot.Catalogue, beside bool) error {
	own, err := c.Claim(sv.id, sv.claimant())
	if err != nil && sv.opt.From == nil {
		return nil
	}
	var contest *snapshot.Contest
	if err != nil {
		contest = c.Watch(sv.id)
	} else {
		sv.claim.add(sv, own)
		contest = own.Contest(sv.opt.Latest)
	}
	if beside || sv.opt.From == nil && !sv.opt.Latest {
		if own != nil {
			err = own.Hold()
		}
		return err
	}
	rival, err := contest.Win(sv.opt.Await, func(o snapshot.OtherClaim, left time.Duration) {
		sv.say("the job's former gorun, on %s (pid %d), was last seen %v ago: its ranks have certainly ended in %v at most", o.Host, o.PID, o.Age.Round(time.Second), left.Round(time.Second))
	})
	if rival != nil {
		err = sv.runsElsewhere(rival)
	}
	return err
}

// claimant describes this head.
func (sv *Service) claimant() snapshot.Claimant {
	return snapshot.Claimant{Host: wire.Hostname(), Process: alive.This(), Lease: sv.opt.Terms().L.Milliseconds(), Line: sv.line}
}

// runsElsewhere is the error for a job that runs elsewhere.
func (sv *Service) runsElsewhere(o *snapshot.OtherClaim) error {
	what := "is running"
	switch {
	case o.Stopped:
		what = "is suspended"
	case !o.Held:
		what = "is just being started"
	}
	text := fmt.Sprintf("job %s %s under gorun on %s (pid %d)", o.Job, what, o.Host, o.PID)
	if o.Job != sv.id {
		text += ", begun by the same line"
	}
	text += fmt.Sprintf(": end it there (gorun kill %s)", o.Job)
	if sv.opt.From != nil && o.Job == sv.id {
		text += ", or use -files copy to run it a second time, in copies of its files"
	}
	if o.Stopped {
		text += fmt.Sprintf("; if that machine is gone for good, remove %s", o.Path)
	}
	return errors.New(text)
}

// add keeps a claim from now on.
func (c *claim) add(sv *Service, own *snapshot.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held = append(c.held, own); len(c.held) == 1 {
		go sv.touch()
	}
}

// stake makes the claim of a job that could have none at its start. It is called before the first
// snapshot.
func (sv *Service) stake() error {
	sv.claim.mu.Lock()
	has := len(sv.claim.held) > 0
	sv.claim.mu.Unlock()
	if has {
		return nil
	}
	own, err := sv.cat.Claim(sv.id, sv.claimant())
	if err != nil {
		return err
	}
	sv.claim.add(sv, own)
	return own.Hold()
}

// touch keeps the claims until the job has ended, and ends the job if one was taken. Other errors
// mean that a folder cannot be reached at the moment.
func (sv *Service) touch() {
	t := time.NewTicker(snapshot.ClaimEvery)
	defer t.Stop()
	for {
		select {
		case <-sv.head.Done():
			return
		case <-t.C:
			if err := sv.taken(); err != nil {
				sv.post(func() { sv.head.Taken(err) })
				return
			}
		}
	}
}

// taken reports that another head has taken the job. Errors of a folder that cannot be reached at
// the moment do not count.
func (sv *Service) taken() error {
	sv.claim.mu.Lock()
	held := sv.claim.held
	sv.claim.mu.Unlock()
	for _, c := range held {
		if err := c.Touch(); errors.Is(err, snapshot.ErrTaken) {
			return err
		}
	}
	return nil
}

// Stands writes into the claims that this process is about to be stopped, and must not be taken for
// dead. It is safe beside the head's goroutine.
func (sv *Service) Stands() {
	sv.claim.mu.Lock()
	defer sv.claim.mu.Unlock()
	for _, c := range sv.claim.held {
		if goOn, err := c.Stop(); err == nil {
			sv.claim.goOn = append(sv.claim.goOn, goOn)
		}
	}
}

// GoesOn undoes Stands. It is safe beside the head's goroutine.
func (sv *Service) GoesOn() {
	sv.claim.mu.Lock()
	defer sv.claim.mu.Unlock()
	for _, goOn := range sv.claim.goOn {
		goOn()
	}
	sv.claim.goOn = nil
}

// Close gives the claims up, when no process of the job can act any more.
func (sv *Service) Close() {
	sv.claim.mu.Lock()
	defer sv.claim.mu.Unlock()
	for _, c := range sv.claim.held {
		if err := c.Close(); err != nil {
			sv.say("%v", err)
		}
	}
	sv.claim.held = nil
}
