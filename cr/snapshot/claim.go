package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A head that runs a job on several nodes has a claim in the job's folder, from the first snapshot on:
//
//	claim-<uuid>.json   {"host":"n1","pid":4711,"lease":15000}
//
// It touches the claim every ClaimEvery, and removes it when nothing of the job can act any more. So a head
// that is about to go on with the job elsewhere sees that another has it. The age of a claim is the difference
// between two times of the file server: that of the claim and that of a claim of the reader's own. The clocks
// of hosts are not compared.
//
// A claim that is not touched any more is of a head that has died, or stands still. Its ranks may act for as long as
// their leases last. Then another head may Take it. A head whose claim was taken has lost the job: ErrTaken. A head
// that runs on, and is cut off from the folder alone, looks the same from there. It renews leases all the same, and
// hears of its loss when it reaches the folder again. Until then the ranks of both act.

// ClaimEvery is how often a claim is touched.
const ClaimEvery = time.Second

const claimPrefix, claimSuffix = "claim-", ".json"

// ErrTaken is returned to a head whose claim another has taken.
var ErrTaken = errors.New("another gorun has taken the job over, as this one did not touch its claim in the folder of snapshots for longer than the leases of its nodes")

// Claimant is the head that has a claim.
type Claimant struct {
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	Lease int64  `json:"lease"` // milliseconds that its ranks may act without it
}

// Claim is a head's own claim. Its methods may be called by several goroutines.
type Claim struct{ path string }

// Claim claims a job that has a folder.
func (c *Catalogue) Claim(job string, by Claimant) (*Claim, error) {
	if err := checkJob(job); err != nil {
		return nil, err
	}
	data, err := json.Marshal(by)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.JobDir(job), claimPrefix+uuid.NewString()+claimSuffix)
	// Another head that looks meanwhile must not find half a claim.
	err = os.WriteFile(path+partSuffix, data, 0o600)
	if err == nil {
		err = os.Rename(path+partSuffix, path)
	}
	if err != nil {
		os.Remove(path + partSuffix)
		return nil, fmt.Errorf("claim job %s: %w", job, explain(err))
	}
	return &Claim{path}, nil
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

// Close gives the job up.
func (c *Claim) Close() error {
	if err := os.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain(err)
	}
	return nil
}

// OtherClaim is the claim of another head.
type OtherClaim struct {
	Claimant
	Path string
	Age  time.Duration // since it was touched
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
	paths, err := claims(filepath.Dir(c.path))
	if err != nil {
		return nil, err
	}
	var others []OtherClaim
	for _, path := range paths {
		if path == c.path {
			continue
		}
		o := OtherClaim{Path: path}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // given up meanwhile
		}
		if err != nil {
			return nil, explain(err)
		}
		st, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &o.Claimant); err != nil || o.Lease < 0 || o.Lease > int64(time.Hour/time.Millisecond) {
			return nil, fmt.Errorf("%s: this is no claim of a head: remove it if no gorun runs this job", path)
		}
		o.Age = own.ModTime().Sub(st.ModTime())
		others = append(others, o)
	}
	return others, nil
}

// Take ends the claim of a head that is certain not to have the job any more.
func (o OtherClaim) Take() error { return (&Claim{o.Path}).Close() }

// claims lists the files of all claims in a job's folder.
func claims(dir string) ([]string, error) { return claimFiles(dir, claimSuffix) }

// claimFiles lists files of claims whose names end so.
func claimFiles(dir, suffix string) ([]string, error) {
	es, err := os.ReadDir(dir)
	if err != nil {
		return nil, explain(err)
	}
	var paths []string
	for _, e := range es {
		if n := e.Name(); strings.HasPrefix(n, claimPrefix) && strings.HasSuffix(n, suffix) && e.Type().IsRegular() {
			paths = append(paths, filepath.Join(dir, n))
		}
	}
	return paths, nil
}
