package head

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/launch/spec"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/lease"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// claim is this head's claim on the job, if the job runs on several nodes: see snapshot.Claim. A job on this
// machine alone has none: its ranks end with its head, and noRival finds it.
type claim struct {
	mu sync.Mutex
	c  *snapshot.Claim // nil: there is none
}

// stake makes the claim when there is a folder for it.
func (h *head) stake() error {
	if len(h.opt.Nodes) == 0 {
		return nil
	}
	h.claim.mu.Lock()
	defer h.claim.mu.Unlock()
	if h.claim.c != nil {
		return nil
	}
	c, err := h.cat.Claim(h.id, snapshot.Claimant{Host: wire.Hostname(), PID: os.Getpid(), Lease: h.opt.Terms().L.Milliseconds()})
	if err != nil {
		return err
	}
	h.claim.c = c
	go h.touch()
	return nil
}

// touch keeps the claim until the job has ended, and ends the job if the claim was taken. Other errors are those
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
	c := h.claim.c
	h.claim.mu.Unlock()
	if c == nil {
		return nil
	}
	if err := c.Touch(); errors.Is(err, snapshot.ErrTaken) {
		return err
	}
	return nil
}

// yield gives the claim up, when nothing of the job can act any more.
func (h *head) yield() {
	h.claim.mu.Lock()
	defer h.claim.mu.Unlock()
	if h.claim.c == nil {
		return
	}
	if err := h.claim.c.Close(); err != nil {
		h.say("%v", err)
	}
}

// Beyond its lease a dead head's ranks count as alive for this long: it may have granted just after it touched
// its claim, and clocks differ by up to 1 %.
const claimMargin = 2*time.Second + 2*snapshot.ClaimEvery

// outlive waits until the ranks of former heads on other machines, which have died, are certain not to act any
// more. A head that still runs the job is a rival as on this machine: see noRival.
func (h *head) outlive() error {
	from := h.opt.From
	if from == nil || h.cat == nil {
		return nil
	}
	own, err := h.cat.Claim(h.id, snapshot.Claimant{Host: wire.Hostname(), PID: os.Getpid()})
	if err != nil {
		return nil // a folder that is only read has no claims of ours; nor could this job take a snapshot
	}
	defer own.Close()
	seen := map[string]time.Duration{}
	for told := false; ; told = true {
		others, err := own.Others()
		if err != nil {
			return err
		}
		var left time.Duration
		for _, o := range others {
			before, again := seen[o.Path]
			seen[o.Path] = o.Age
			if o.Lease == 0 || again && o.Age < before {
				if o.Lease > 0 && h.inTheWay() {
					return fmt.Errorf("job %s is still running under gorun on %s (pid %d): end it there (gorun kill %s), or use -files copy or -files keep", h.id, o.Host, o.PID, h.id)
				}
				continue // it is alive, and no harm
			}
			wait := time.Duration(o.Lease)*time.Millisecond*101/100 + claimMargin - o.Age
			if wait <= 0 {
				if err := o.Take(); err != nil {
					return err
				}
				continue
			}
			left = max(left, wait)
			if !told && o.Age > 2*snapshot.ClaimEvery {
				h.say("the job's former gorun, on %s (pid %d), was last seen %v ago: its ranks have certainly ended in %v at most", o.Host, o.PID, o.Age.Round(time.Second), wait.Round(time.Second))
			}
		}
		if left == 0 {
			return nil
		}
		time.Sleep(min(left, snapshot.ClaimEvery/2))
	}
}

// inTheWay reports whether this restart would go on in files that a living job may write to.
func (h *head) inTheWay() bool {
	from := h.opt.From
	if from.Schema.Backend == wire.BackendSelf || h.opt.Files != whole.FilesRefuse {
		return false
	}
	file, err := spec.FirstOutput(from)
	return err != nil || file != ""
}
