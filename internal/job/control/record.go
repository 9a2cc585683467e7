// Package control lets commands find a running job and ask it something: its folder, its record, its
// socket.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Every running job has a control folder in one of several places (see Places). It is named by the
// job's first incarnation, and holds job.json (a Record) and control.sock. The head holds a lock
// (flock) on the folder as long as it lives. A folder that can be locked belongs to a dead head:
// the first gorun command that sees it removes it. Folders are made and removed under a lock on the
// place, so a new folder is never seen unlocked. A place is removed with its last folder. A head
// whose folder has vanished makes another. Each job has a name as well, see names.go.
const (
	recordName = "job.json"
	socketName = "control.sock"
)

// Record is what is known of a running job without asking it.
type Record struct {
	Job         string            `json:"job"`         // uuid
	Incarnation string            `json:"incarnation"` // 16 hex digits
	Parent      rawstring.String  `json:"parent,omitempty"`
	PID         int               `json:"pid"` // of the head
	Host        string            `json:"host"`
	NP          int               `json:"np"`
	Agents      int               `json:"agents"`
	CR          string            `json:"cr,omitempty"`
	Program     rawstring.String  `json:"program"`
	Args        rawstring.Strings `json:"args"`
	Dir         rawstring.String  `json:"dir"`
	CkptDir     rawstring.String  `json:"ckpt_dir,omitempty"`
	Started     time.Time         `json:"started"`
	Restarts    int               `json:"restarts"`
	Cleanup     rawstring.Strings `json:"cleanup,omitempty"` // to be removed if the head died
	Version     string            `json:"version"`
	Line        string            `json:"line,omitempty"`  // what -restart-latest knows the job by
	Realm       string            `json:"realm,omitempty"` // see realm

	folder string // the control folder; "": it has none, or none that can be found
	name   string // at which it listens as well
}

// realm keeps jobs apart, as those of tests that run side by side: commands and jobs with another GORUN_REALM do not see each other.
func realm() string { return os.Getenv("GORUN_REALM") }

// Write puts the record into its folder, whole or not at all.
func (r *Record) Write(dir string) error {
	tmp := filepath.Join(dir, "."+recordName)
	if err := os.WriteFile(tmp, wire.JSON(r), 0o600); err != nil {
		return fmt.Errorf("job record: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, recordName)); err != nil {
		return fmt.Errorf("job record: %w", err)
	}
	return nil
}

func readRecord(dir string) (*Record, error) {
	b, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return nil, err
	}
	r := &Record{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, recordName), err)
	}
	return r, nil
}

// Jobs lists the running jobs of this user on this machine, oldest first, and removes what dead heads have left.
func Jobs() ([]*Record, error) {
	var jobs []*Record
	known := map[string]bool{} // by name
	for _, place := range Places() {
		found, err := jobsIn(place)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if !known[r.name] {
				jobs, known[r.name] = append(jobs, r), true
			}
		}
	}
	for _, name := range names() {
		if !known[name] {
			known[name] = true
			if r := introduce(name); r != nil {
				jobs = append(jobs, r)
			}
		}
	}
	jobs = slices.DeleteFunc(jobs, func(r *Record) bool { return r.Realm != realm() })
	slices.SortStableFunc(jobs, func(a, b *Record) int { return a.Started.Compare(b.Started) })
	return jobs, nil
}

// jobsIn lists the jobs that have their control folders in a place. A place that other users may
// write to has none.
func jobsIn(place string) (jobs []*Record, err error) {
	root, err := openOwn(place)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errForeign) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	sweeps := lock(root, lockWithin) == nil && same(root, place) // if the lock is held, another process sweeps
	entries, err := os.ReadDir(within(root, "."))
	if errors.Is(err, fs.ErrNotExist) { // another command has found it empty and removed it
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue // not ours
		}
		dir := within(root, e.Name())
		r, err := readRecord(dir)
		if sweeps {
			if stale, err := sweep(dir, r); err != nil {
				return nil, err
			} else if stale {
				continue
			}
		}
		if err == nil { // on an error: it is being started, or being removed
			r.folder, r.name = filepath.Join(place, e.Name()), nameOf(r.Job, e.Name())
			jobs = append(jobs, r)
		}
	}
	if sweeps && len(jobs) == 0 {
		os.Remove(place) // succeeds only if it is empty
	}
	return jobs, nil
}

// sweep removes the folder of a dead head, and all that its record lists for removal. The place
// must be locked.
func sweep(dir string, r *Record) (stale bool, err error) {
	held, err := lockDir(dir, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case errors.Is(err, errHeld):
		return false, nil
	case errors.Is(err, errForeign):
		return true, nil // root has put it there; leave it alone
	case err != nil:
		return false, err
	}
	defer held.Close()
	if r != nil {
		for _, p := range r.Cleanup {
			err = errors.Join(err, RemoveOwn(p))
		}
	}
	return true, errors.Join(err, os.RemoveAll(dir))
}

// FindJob finds a running job by the beginning of its id, or of its incarnation's id. An empty one
// means the only job of this session that runs, or if there is none, the only one of this machine.
func FindJob(id string) (*Record, error) {
	jobs, err := Jobs()
	if err != nil {
		return nil, err
	}
	if places := Places(); id == "" && len(places) > 0 {
		if own := slices.DeleteFunc(slices.Clone(jobs), func(r *Record) bool { return filepath.Dir(r.folder) != places[0] }); len(own) > 0 {
			jobs = own
		}
	}
	return pickJob(jobs, id)
}

// ErrNotRunning says that no running job is meant.
var ErrNotRunning = errors.New("no such job is running")

// notRunning is that error in more words.
type notRunning struct{ text string }

func (e *notRunning) Error() string { return e.text }

func (e *notRunning) Is(target error) bool { return target == ErrNotRunning }

func pickJob(jobs []*Record, id string) (*Record, error) {
	if len(jobs) == 0 {
		return nil, &notRunning{"no job of yours is running on this machine; snapshots of ended ones: gorun snapshots"}
	}
	var found []*Record
	for _, r := range jobs {
		if r.Job == id || r.Incarnation == id {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		for _, r := range jobs {
			if strings.HasPrefix(r.Job, id) || strings.HasPrefix(r.Incarnation, id) {
				found = append(found, r)
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return nil, &notRunning{fmt.Sprintf("no running job has an id that begins with %q; running: %s", id, jobList(jobs))}
	case id == "":
		return nil, fmt.Errorf("several jobs are running, say which: %s", jobList(found))
	}
	return nil, fmt.Errorf("%q fits several running jobs, give more of the id: %s", id, jobList(found))
}

// jobList names jobs as far as needed; those that share a job id by their incarnation.
func jobList(jobs []*Record) string {
	seen := map[string]int{}
	for _, r := range jobs {
		seen[r.Job]++
	}
	var names []string
	for _, r := range jobs {
		name := r.Job
		if seen[r.Job] > 1 {
			name = r.Incarnation + " (of " + r.Job + ")"
		}
		names = append(names, name+" "+filepath.Base(string(r.Program)))
	}
	return strings.Join(names, ", ")
}

// BuildPrefix begins the names of the folders that builds are put in.
const BuildPrefix = "gorun-build-"

// RemoveOwn removes a build folder that a record or an order names, and nothing
// else: the name must be one of ours.
func RemoveOwn(path string) error {
	if !filepath.IsAbs(path) || !strings.HasPrefix(filepath.Base(path), BuildPrefix) {
		return fmt.Errorf("%s is not a temporary folder of gorun and stays", path)
	}
	return os.RemoveAll(path)
}
