package snapshot

import (
	"path/filepath"
	"time"

	"github.com/gorun-mpi/gorun/internal/system/alive"
)

// Contest is how a head gets a job for itself alone, also where several want it at the same instant on several machines, and where locks mean nothing.
//
//	claim             its file is there, before it looks for others
//	look              at the claims of others: at once those of the living and the dead of this machine; else until they are touched, or over
//	  one is held           the job is somebody's: withdraw
//	  one is not held yet   the smaller name goes on and looks again, the larger one withdraws
//	  none              hold
//
// Of two heads at least one sees the other's claim, since each has made its own before it looks. So
// the one that saw no other holds the job, and the other waits until it has seen that, or
// withdraws. A claim stays under its one name for as long as it lives: while a folder is listed, a
// file that is renamed may be missed.
type Contest struct {
	own  *Claim // nil: the folder can only be read, so others do not see that this head wants the job
	c    *Catalogue
	job  string
	line string
	seen map[string]*sighting
}

// sighting is what was seen of another claim so far.
type sighting struct {
	first   time.Time // when it was seen first
	touched time.Time // by the file server
	since   time.Time // when it was seen first with that
	moves   bool      // it was touched while we looked
}

// Round is what one look has found.
type Round struct {
	Rivals []OtherClaim  // claims of others who have the job
	Dying  []OtherClaim  // who had it, and is not heard any more
	Wait   time.Duration // look again then; 0 without Rivals: no head has it
	Left   time.Duration // when all of Dying are certain to have ended
}

// Contest begins to contend for the job with a claim, and for all jobs of its line if alone is set.
func (c *Claim) Contest(alone bool) *Contest {
	t := &Contest{own: c, c: c.c, job: c.job, seen: map[string]*sighting{}}
	if alone {
		t.line = c.line
	}
	return t
}

// Watch only looks who else has a job, in a folder that can only be read.
func (c *Catalogue) Watch(job string) *Contest {
	return &Contest{c: c, job: job, seen: map[string]*sighting{}}
}

// Beyond its lease a dead head's ranks count as alive for this long: it may have granted just after it touched
// its claim, and clocks differ by up to 1 %.
const claimMargin = 2*time.Second + 2*ClaimEvery

// Moments of a contest.
const (
	soon    = 20 * time.Millisecond // others withdraw or hold
	silence = 3 * ClaimEvery        // of a claim that was touched before
)

// Look looks once at the claims of others, and takes those of the dead.
func (t *Contest) Look(now time.Time) (r Round, err error) {
	others, err := t.others()
	if err != nil {
		return r, err
	}
	for _, o := range others {
		lives, left := t.judge(&o, now)
		switch {
		case lives && (o.Held || !t.mayWin(&o, now)):
			r.Rivals = append(r.Rivals, o)
			r.Wait = max(r.Wait, ClaimEvery/4)
		case lives:
			r.Wait = max(r.Wait, soon)
		case left <= 0:
			if err := o.Take(); err != nil && t.own != nil {
				return r, err
			}
		default:
			r.Wait, r.Left = max(r.Wait, min(left, ClaimEvery/4)), max(r.Left, left)
			if o.Age > 2*ClaimEvery {
				r.Dying = append(r.Dying, o)
			}
		}
	}
	return r, nil
}

// others lists the other claims.
func (t *Contest) others() (others []OtherClaim, err error) {
	if t.own != nil && t.line == "" {
		return t.own.Others()
	}
	all, err := t.c.claimsOn(t.job, t.line)
	if err != nil || t.own == nil {
		return all, err
	}
	mine, err := t.own.Others() // those of the same folder, with their ages
	if err != nil {
		return nil, err
	}
	others = mine
	for _, o := range all {
		if o.Job != t.job {
			others = append(others, o)
		}
	}
	return others, nil
}

// judge tells whether the head of a claim lives, or else after what time it certainly has ended.
func (t *Contest) judge(o *OtherClaim, now time.Time) (lives bool, left time.Duration) {
	s := t.seen[o.Path]
	switch {
	case s == nil:
		s = &sighting{first: now, touched: o.touched, since: now}
		t.seen[o.Path] = s
	case !s.touched.Equal(o.touched):
		s.touched, s.since, s.moves = o.touched, now, true
	}
	switch o.State() {
	case alive.Lives:
		return true, 0
	case alive.Dead:
		return false, 0
	}
	if o.Stopped || s.moves && now.Sub(s.since) < silence {
		return true, 0
	}
	if o.Lease == 0 { // of a gorun that only looked so: 1.0 and before
		return false, 0
	}
	o.Age = max(o.Age, now.Sub(s.since))
	return false, time.Duration(o.Lease)*time.Millisecond*101/100 + claimMargin - o.Age
}

// mayWin reports whether this head goes on beside one that wants the job as well. One that neither holds it nor gives it up, for
// longer than any lease that it may be waiting for, has it.
func (t *Contest) mayWin(o *OtherClaim, now time.Time) bool {
	return t.own != nil && filepath.Base(t.own.path) < filepath.Base(o.Path) && now.Sub(t.seen[o.Path].first) < 2*time.Minute
}

// Win looks until the claim is the only one, and holds it then. If others have the job, and still
// do after await, it returns one of them. tell is called when a head has to be outlived.
func (t *Contest) Win(await time.Duration, tell func(o OtherClaim, left time.Duration)) (rival *OtherClaim, err error) {
	for began, told := time.Now(), false; ; {
		r, err := t.Look(time.Now())
		if err != nil {
			return nil, err
		}
		if len(r.Rivals) > 0 && time.Since(began) >= await {
			return &r.Rivals[0], nil
		}
		if r.Wait == 0 && t.own == nil {
			return nil, nil
		}
		if r.Wait == 0 {
			return nil, t.own.Hold()
		}
		if len(r.Dying) > 0 && !told {
			told = true
			tell(r.Dying[0], r.Left)
		}
		time.Sleep(r.Wait)
	}
}
