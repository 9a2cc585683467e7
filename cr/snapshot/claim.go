package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/alive"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// A head that runs a job that can be checkpointed has a claim in the job's folder:
//
//	claim-<uuid>.json      {"host":"n1","pid":4711,"start":81234,"machine":"...","lease":15000,"line":"..."}
//	claim-<uuid>.held      from when no other head can have the job
//	claim-<uuid>.stopped   while its gorun stands still, as by ^Z, and does not touch it
//
// It touches the claim every ClaimEvery, and removes it when nothing of the job can act any more. So a head
// that is about to go on with the job sees that another has it. How a job is claimed, so that only one head ever has it, is Contest's.
//
// A claim of a process of this machine that is dead may be taken at once: what it had ended with it. One of another machine, or another
// container, that is not touched any more is of a head that has died, or stands still. Its ranks may act for as long as
// their leases last. Then another head may Take it. The age of a claim is the difference
// between two times of the file server: that of the claim and that of a claim of the reader's own. The clocks
// of hosts are not compared. A head whose claim was taken has lost the job: ErrTaken. A head
// that runs on, and is cut off from the folder alone, looks the same from there. It renews leases all the same, and
// hears of its loss when it reaches the folder again. Until then the ranks of both act.

// ClaimEvery is how often a claim is touched.
const ClaimEvery = time.Second

const (
	claimPrefix, claimSuffix  = "claim-", ".json"
	heldSuffix, stoppedSuffix = ".held", ".stopped"
)

// ErrTaken is returned to a head whose claim another has taken.
var ErrTaken = errors.New("another gorun has taken the job over, as this one did not touch its claim in the folder of snapshots for longer than the leases of its nodes")

// Claimant is the head that has a claim.
type Claimant struct {
	Host  string `json:"host"`
	Lease int64  `json:"lease"`          // milliseconds that its ranks may act without it
	Line  string `json:"line,omitempty"` // what -restart-latest knows the job by; "": nothing
	alive.Process
}

// Claim is a head's own claim. Its methods may be called by several goroutines.
type Claim struct {
	path string
	c    *Catalogue
	job  string
	line string
}

// Claim makes a claim on a job. The job's folder is made if need be.
func (c *Catalogue) Claim(job string, by Claimant) (*Claim, error) {
	if err := checkJob(job); err != nil {
		return nil, err
	}
	data, err := json.Marshal(by)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.JobDir(job), claimPrefix+uuid.NewString()+claimSuffix)
	for range 10 { // a sweep may be removing an empty folder
		if err = os.MkdirAll(c.JobDir(job), 0o700); err == nil {
			// Another head that looks meanwhile must not find half a claim.
			if err = os.WriteFile(path+partSuffix, data, 0o600); err == nil {
				err = os.Rename(path+partSuffix, path)
			}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		os.Remove(path + partSuffix)
		return nil, fmt.Errorf("claim job %s: %w", job, explain(err))
	}
	return &Claim{path, c, job, by.Line}, nil
}

// Touch says that the head still has the job. ErrTaken says that it has not. A job's folder that is not there, as when a file
// system is away for a moment, says nothing of that.
func (c *Claim) Touch() error {
	f, err := os.OpenFile(c.path, os.O_WRONLY, 0)
	if err == nil {
		// A write, as Chtimes would set this machine's time, not the server's.
		_, err = f.WriteAt([]byte("{"), 0)
		err = errors.Join(err, f.Close())
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := os.Stat(filepath.Dir(c.path)); gone != nil {
			return explain(gone)
		}
		return ErrTaken
	}
	return err
}

// Hold says that the job is this head's alone. It is called when a Contest is won, or if no other
// head can know the job.
func (c *Claim) Hold() error {
	if err := c.mark(heldSuffix); err != nil {
		return err
	}
	if err := c.Touch(); err != nil { // taken before it was held
		os.Remove(mark(c.path, heldSuffix))
		return err
	}
	return nil
}

// Stop says that the head will not touch its claim for a while, and yet has the job. The function that it returns ends that.
func (c *Claim) Stop() (goOn func(), err error) {
	return func() { os.Remove(mark(c.path, stoppedSuffix)) }, c.mark(stoppedSuffix)
}

// mark makes a mark beside the claim.
func (c *Claim) mark(suffix string) error {
	f, err := os.OpenFile(mark(c.path, suffix), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return explain(err)
	}
	return f.Close()
}

// mark is the path of a mark beside a claim.
func mark(claim, suffix string) string { return strings.TrimSuffix(claim, claimSuffix) + suffix }

// Close gives the job up, and removes the job's folder if nothing is in it.
func (c *Claim) Close() error {
	if err := removeClaim(c.path); err != nil {
		return err
	}
	return c.c.removeBare(c.job)
}

// removeClaim removes a claim, and then its marks: they say nothing without it.
func removeClaim(path string) error {
	for _, p := range []string{path, mark(path, heldSuffix), mark(path, stoppedSuffix)} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return explain(err)
		}
	}
	return nil
}

// removeBare removes a job's folder that holds nothing but a lock: no snapshot was ever begun in it.
func (c *Catalogue) removeBare(job string) error {
	dir := c.JobDir(job)
	es, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(es) > 1, len(es) == 1 && es[0].Name() != lockFile:
		return nil
	case err != nil:
		return explain(err)
	}
	if len(es) == 1 {
		l, busy, err := flock(filepath.Join(dir, lockFile), unix.LOCK_EX|unix.LOCK_NB)
		if busy || err != nil {
			return err
		}
		defer l.Close()
		if err := os.Remove(filepath.Join(dir, lockFile)); err != nil {
			return explain(err)
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrExist) {
		return explain(err)
	}
	return nil
}

// OtherClaim is the claim of another head.
type OtherClaim struct {
	Claimant
	Path    string
	Job     string
	Age     time.Duration // since it was touched; 0 if that cannot be told
	Held    bool          // else the head is about to have the job, or finds that it cannot
	Stopped bool
	touched time.Time // by the file server's clock
}

// read reads the claim in a file. A claim that is given up meanwhile is nil.
func read(path string) (*OtherClaim, error) {
	o := &OtherClaim{Path: path, Job: filepath.Base(filepath.Dir(path))}
	data, err := readClaim(path) // first: a network file system then asks its server
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(err)
	}
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &o.Claimant); err != nil || o.Lease < 0 || o.Lease > int64(time.Hour/time.Millisecond) {
		return nil, fmt.Errorf("%s: this is no claim of a head: remove it if no gorun runs this job", path)
	}
	o.touched = st.ModTime()
	for suffix, is := range map[string]*bool{heldSuffix: &o.Held, stoppedSuffix: &o.Stopped} {
		_, err := os.Lstat(mark(path, suffix))
		if *is = err == nil; err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, explain(err)
		}
	}
	return o, nil
}

// claimLimit is more than a claim needs.
const claimLimit = 64 << 10

// readClaim reads the file of a claim. In the folder of a job that the user trusts it may be
// another user's; it says no more than that a job runs.
func readClaim(path string) ([]byte, error) {
	f, err := owned.OpenTrusted(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, claimLimit))
}

// Others lists the claims of other heads on the same job.
func (c *Claim) Others() ([]OtherClaim, error) {
	if err := c.Touch(); err != nil {
		return nil, err
	}
	own, err := os.Stat(c.path)
	if err != nil {
		return nil, err
	}
	all, err := c.c.claimsOn(c.job, "")
	if err != nil {
		return nil, err
	}
	var others []OtherClaim
	for _, o := range all {
		if o.Path != c.path {
			o.Age = own.ModTime().Sub(o.touched)
			others = append(others, o)
		}
	}
	return others, nil
}

// claimsOn reads the claims on a job, and those on other jobs that have the same line, if there is one.
func (c *Catalogue) claimsOn(job, line string) (all []OtherClaim, err error) {
	jobs := []string{job}
	if line != "" {
		more, err := c.Jobs()
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, slices.DeleteFunc(more, func(j string) bool { return j == job })...)
	}
	for _, j := range jobs {
		paths, err := claims(c.JobDir(j))
		if err != nil && !(errors.Is(err, fs.ErrNotExist) && j != job) {
			return nil, err
		}
		for _, path := range paths {
			o, err := read(path)
			if err != nil {
				return nil, err
			}
			if o != nil && (j == job || o.Line == line) {
				all = append(all, *o)
			}
		}
	}
	return all, nil
}

// Take ends the claim of a head that is certain not to have the job any more.
func (o OtherClaim) Take() error { return removeClaim(o.Path) }

// sweepClaims removes the claims of heads that have died on this machine, and the job's folder if they have left nothing else.
func (c *Catalogue) sweepClaims(job string) error {
	paths, err := claims(c.JobDir(job))
	if err != nil {
		return err
	}
	swept := false
	for _, path := range paths {
		o, err := read(path)
		if err != nil || o == nil || o.State() != alive.Dead {
			continue // what cannot be read is told to whoever wants the job
		}
		if err := o.Take(); err != nil {
			return err
		}
		swept = true
	}
	if !swept {
		return nil
	}
	return c.removeBare(job)
}

// claims lists the files of all claims in a job's folder.
func claims(dir string) ([]string, error) { return claimFiles(dir, claimSuffix) }

// claimFiles lists files of claims whose names end so.
func claimFiles(dir string, suffixes ...string) ([]string, error) {
	es, err := os.ReadDir(dir)
	if err != nil {
		return nil, explain(err)
	}
	var paths []string
	for _, e := range es {
		n := e.Name()
		ends := slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(n, s) })
		if strings.HasPrefix(n, claimPrefix) && ends && e.Type().IsRegular() {
			paths = append(paths, filepath.Join(dir, n))
		}
	}
	return paths, nil
}
