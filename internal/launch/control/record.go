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
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/exact"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
)

// Every running job has a control folder, named by its first incarnation, with job.json (a Record)
// and control.sock:
//
//	$XDG_RUNTIME_DIR/gorun/<id>/   or, without that variable or its folder,
//	/tmp/gorun-<uid>/<id>/
//
// The head holds a lock (flock) on the folder as long as it lives. A folder that can be locked
// belongs to a dead head: the first gorun command that sees it removes it. Folders are made and
// removed under a lock on the root, so a new folder is never seen unlocked. The root is removed with
// the last folder.
const (
	recordName = "job.json"
	socketName = "control.sock"
)

// Record is what is known of a running job without asking it.
type Record struct {
	Job         string        `json:"job"`         // uuid
	Incarnation string        `json:"incarnation"` // 16 hex digits
	Parent      exact.String  `json:"parent,omitempty"`
	PID         int           `json:"pid"` // of the head
	Host        string        `json:"host"`
	NP          int           `json:"np"`
	Agents      int           `json:"agents"`
	CR          string        `json:"cr,omitempty"`
	Program     exact.String  `json:"program"`
	Args        exact.Strings `json:"args"`
	Dir         exact.String  `json:"dir"`
	CkptDir     exact.String  `json:"ckpt_dir,omitempty"`
	Started     time.Time     `json:"started"`
	Restarts    int           `json:"restarts"`
	Cleanup     exact.Strings `json:"cleanup,omitempty"` // to be removed if the head died
	Version     string        `json:"version"`

	folder string // the control folder
}

// ControlRoot is the folder that holds the control folders of this user's jobs.
func ControlRoot() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		// Where no session was opened (cron, su) the variable may be stale.
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return filepath.Join(dir, "gorun")
		}
	}
	return filepath.Join("/tmp", "gorun-"+strconv.Itoa(os.Getuid()))
}

// lockDir opens a folder and locks it; wait says whether to wait for the lock.
// The lock ends when the file is closed.
func lockDir(path string, wait bool) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		if err = unix.Flock(fd, how); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// lockRoot locks the root, making it first if create is set. It must be a
// folder of this user's that nobody else may enter.
func lockRoot(root string, create bool) (*os.File, error) {
	for {
		if create {
			if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, fmt.Errorf("control folder: %w", err)
			}
		}
		f, err := lockDir(root, true)
		if errors.Is(err, fs.ErrNotExist) && create {
			continue // removed in between with its last job
		}
		if err != nil {
			return nil, err
		}
		var st, now unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			f.Close()
			return nil, err
		}
		if int(st.Uid) != os.Getuid() || st.Mode&0o077 != 0 {
			f.Close()
			return nil, fmt.Errorf("control folder %s: it must belong to you with mode 0700, it has owner %d and mode %#o: remove it or set XDG_RUNTIME_DIR", root, st.Uid, st.Mode&0o777)
		}
		if unix.Stat(root, &now) == nil && now.Ino == st.Ino && now.Dev == st.Dev {
			return f, nil
		}
		f.Close() // removed while we waited for the lock
	}
}

// NewFolder makes and locks the control folder of a job.
func NewFolder(root, name string) (dir string, lock *os.File, err error) {
	r, err := lockRoot(root, true)
	if err != nil {
		return "", nil, err
	}
	defer r.Close()
	dir = filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("control folder: %w", err)
	}
	if lock, err = lockDir(dir, true); err != nil {
		os.Remove(dir)
		return "", nil, err
	}
	return dir, lock, nil
}

// RemoveFolder removes a control folder and, if it was the last, the root.
// Removing what is gone already is no error: several agents may do it.
func RemoveFolder(dir string) error {
	root := filepath.Dir(dir)
	r, err := lockRoot(root, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Remove(root); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

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
	r := &Record{folder: dir}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, recordName), err)
	}
	return r, nil
}

// Jobs lists the running jobs of this user, oldest first, and removes what dead heads have left.
func Jobs() ([]*Record, error) {
	root := ControlRoot()
	lock, err := lockRoot(root, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var jobs []*Record
	for _, e := range entries {
		if !e.IsDir() {
			continue // not ours
		}
		dir := filepath.Join(root, e.Name())
		r, err := readRecord(dir)
		if stale, serr := sweep(dir, r); serr != nil {
			return nil, serr
		} else if stale {
			continue
		}
		if err == nil {
			jobs = append(jobs, r)
		} // else: it is being started, or being removed
	}
	if len(jobs) == 0 {
		os.Remove(root) // succeeds only if it is empty
	}
	sort.Slice(jobs, func(i, j int) bool { return jobs[i].Started.Before(jobs[j].Started) })
	return jobs, nil
}

// sweep removes the folder of a dead head, and what its record says must be removed. The root must
// be locked.
func sweep(dir string, r *Record) (stale bool, err error) {
	lock, err := lockDir(dir, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, err
	}
	defer lock.Close()
	if r != nil {
		for _, p := range r.Cleanup {
			err = errors.Join(err, RemoveOwn(p))
		}
	}
	return true, errors.Join(err, os.RemoveAll(dir))
}

// FindJob finds a running job by the beginning of its id, or of its incarnation's id. An empty one
// means the only job that runs.
func FindJob(id string) (*Record, error) {
	jobs, err := Jobs()
	if err != nil {
		return nil, err
	}
	return pickJob(jobs, id)
}

func pickJob(jobs []*Record, id string) (*Record, error) {
	if len(jobs) == 0 {
		return nil, errors.New("no job of yours is running on this machine; snapshots of ended ones: gorun snapshots")
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
		return nil, fmt.Errorf("no running job has an id that begins with %q; running: %s", id, jobList(jobs))
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
