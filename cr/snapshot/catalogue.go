package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Catalogue is the folder that holds the snapshots of many jobs. It keeps no state in memory that matters: any
// number of processes may use the same folder.
type Catalogue struct {
	root     string
	programs sync.Map // kept programs that were read: path -> programState
	open     Opener   // of stores elsewhere; nil: they are not reached
	trust    bool     // what belongs to others is read, see owner.go
}

// Snapshot is a committed snapshot.
type Snapshot struct {
	Dir    string // absolute
	Schema *Schema
	open   Opener // of the store of its images, if that is elsewhere
	trust  bool   // it may be anybody's
}

// ImagePath is the path of a rank's image that lies beside the schema.
func (s *Snapshot) ImagePath(rank int) string {
	return filepath.Join(s.Dir, s.Schema.Images[rank].File)
}

// SchemaPath is the path of the schema.
func (s *Snapshot) SchemaPath() string { return filepath.Join(s.Dir, SchemaFile) }

// Bytes is the size of all images.
func (s *Snapshot) Bytes() int64 {
	var n int64
	for _, im := range s.Schema.Images {
		n += im.Size
	}
	return n
}

// Open returns the catalogue in the folder root, which need not exist yet.
func Open(root string) (*Catalogue, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	return &Catalogue{root: abs}, nil
}

// Root is the catalogue's folder, absolute.
func (c *Catalogue) Root() string { return c.root }

// JobDir is the folder of a job's snapshots.
func (c *Catalogue) JobDir(job string) string { return filepath.Join(c.root, job) }

// Jobs lists the jobs of this user that have a folder, in the order of their ids. With Trust it lists those of others, too.
func (c *Catalogue) Jobs() ([]string, error) {
	own, others, err := c.folders()
	if c.trust {
		own = slices.AppendSeq(own, maps.Keys(others))
		slices.Sort(own)
	}
	return own, err
}

// folders lists the jobs that have a folder: those of this user, and those of others with their owners.
func (c *Catalogue) folders() (own []string, others map[string]int, err error) {
	own, others, err = owned.Folders(c.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, explain(err)
	}
	own = slices.DeleteFunc(own, func(name string) bool { return checkJob(name) != nil })
	maps.DeleteFunc(others, func(name string, _ int) bool { return checkJob(name) != nil })
	return own, others, nil
}

// sequences lists the numbers of all folders of a job, committed or not.
func (c *Catalogue) sequences(job string) ([]int, error) {
	es, err := c.entries(job)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(err)
	}
	var seqs []int
	for _, e := range es {
		if n, ok := parseSeq(e.Name()); ok && e.IsDir() {
			seqs = append(seqs, n)
		}
	}
	slices.Sort(seqs)
	return seqs, nil
}

// entries lists a job's folder.
func (c *Catalogue) entries(job string) ([]fs.DirEntry, error) {
	d, err := owned.Below(c.root, c.trust, job)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Entries()
}

// parseSeq reads a sequence number as folders are named: without a sign and without leading zeros.
func parseSeq(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0 && strconv.Itoa(n) == s
}

func (c *Catalogue) dir(job string, seq int) string {
	return filepath.Join(c.JobDir(job), strconv.Itoa(seq))
}

// List returns the committed snapshots of a job, oldest first. It leaves out those whose schema cannot be read.
// The error, returned beside the others, reports them: see UnreadableOf.
func (c *Catalogue) List(job string) ([]*Snapshot, error) {
	seqs, err := c.sequences(job)
	if err != nil {
		return nil, err
	}
	var all []*Snapshot
	var bad []error
	for _, seq := range seqs {
		s, err := c.load(c.dir(job, seq))
		switch {
		case err == nil:
			all = append(all, s)
		case errors.Is(err, ErrNotCommitted), errors.Is(err, ErrNotFound):
		default:
			bad = append(bad, &Unreadable{Job: job, Seq: seq, Err: err})
		}
	}
	return all, errors.Join(bad...)
}

// Load reads the snapshot in the folder dir. Errors: ErrNotFound,
// ErrNotCommitted, ErrMisplaced, those of ReadSchema.
func Load(dir string) (*Snapshot, error) { return load(dir, false) }

func load(dir string, trust bool) (*Snapshot, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s, err := readSchema(filepath.Join(abs, SchemaFile), trust)
	if errors.Is(err, fs.ErrNotExist) {
		if _, e := os.Stat(abs); e != nil {
			return nil, fmt.Errorf("%s: %w", abs, ErrNotFound)
		}
		return nil, fmt.Errorf("%s: %w", abs, ErrNotCommitted)
	}
	if err != nil {
		return nil, err
	}
	return placed(abs, s)
}

// Load is the function Load, for a snapshot whose images may lie in a store that the catalogue reaches.
func (c *Catalogue) Load(dir string) (*Snapshot, error) { return c.load(dir) }

func (c *Catalogue) load(dir string) (*Snapshot, error) { return c.reaching(load(dir, c.trust)) }

// reaching lets a snapshot reach the stores of the catalogue.
func (c *Catalogue) reaching(s *Snapshot, err error) (*Snapshot, error) {
	if s != nil {
		s.open, s.trust = c.open, c.trust
	}
	return s, err
}

// placed returns the snapshot of a schema in the folder dir. In a job's folder its place finds it, so its
// schema must name that job and that number. Elsewhere the folder may have any name.
func placed(dir string, s *Schema) (*Snapshot, error) {
	job := filepath.Base(filepath.Dir(dir))
	seq, ok := parseSeq(filepath.Base(dir))
	if ok && checkJob(job) == nil && (job != s.Job || seq != s.Sequence) {
		return nil, fmt.Errorf("%s: %w: it is snapshot %d of job %s: put it where it belongs, or into a folder that is no job's", dir, ErrMisplaced, s.Sequence, s.Job)
	}
	return &Snapshot{Dir: dir, Schema: s}, nil
}

// Latest returns the newest committed snapshot of a job: the one with the highest number, whatever the clocks
// said, over all its restarts. If its schema is damaged, Latest returns an error and does not pass it over. The
// user chooses whether to go on from an older one.
func (c *Catalogue) Latest(job string) (*Snapshot, error) {
	s, passed, err := c.readable(job)
	if len(passed) > 0 {
		return nil, passed[0]
	}
	return s, err
}

// readable returns the newest committed snapshot of a job whose schema can be read and is in its place. passed
// says why newer ones were passed over. If there is none, the error is that of the newest.
func (c *Catalogue) readable(job string) (s *Snapshot, passed []error, err error) {
	seqs, err := c.sequences(job)
	if err != nil {
		return nil, nil, err
	}
	for _, seq := range slices.Backward(seqs) {
		s, err := c.load(c.dir(job, seq))
		switch {
		case err == nil:
			return s, passed, nil
		case errors.Is(err, ErrNotCommitted), errors.Is(err, ErrNotFound):
		default:
			passed = append(passed, err)
		}
	}
	if len(passed) > 0 {
		return nil, nil, passed[0]
	}
	return nil, nil, fmt.Errorf("job %s in %s: %w", job, c.root, ErrNotFound)
}

// LatestOf returns the newest snapshot that the given incarnation of a job has taken. If it has taken none,
// that is parent, the snapshot it was restarted from (0: none). Two restarts that run side by side each find
// their own.
func (c *Catalogue) LatestOf(job, incarnation string, parent int) (*Snapshot, error) {
	all, err := c.List(job)
	for _, s := range slices.Backward(all) {
		if s.Schema.Incarnation == incarnation {
			return s, err
		}
	}
	if parent > 0 {
		return c.load(c.dir(job, parent))
	}
	return nil, errors.Join(fmt.Errorf("run %s of job %s in %s: %w", incarnation, job, c.root, ErrNotFound), err)
}

// Find finds a committed snapshot by what a user types:
//
//	PATH            of a schema, of a snapshot's folder, of an image in it, or of a
//	                job's folder (its newest)
//	latest          the newest of all jobs that have not ended well since, by the
//	                time of their commit
//	JOB             newest of the job; the id may be shortened as long as it is unique
//	JOB/SEQ         that one; also JOB/latest
//
// Errors: ErrNotFound, ErrAmbiguous naming the candidates, ErrFinished if all jobs
// have ended well, ErrNotCommitted, ErrMisplaced, ErrSchema, ErrFormat.
func (c *Catalogue) Find(spec string) (*Snapshot, error) {
	f, err := c.find(spec)
	if len(f.passed) > 0 {
		return nil, f.passed[0]
	}
	return f.snapshot, err
}

// Candidates is Find for a restart. Where spec means the newest snapshot of a job, its older ones follow, the
// newest first. They serve when the newest is damaged. Those whose schema cannot be read, or that lie where
// another belongs, are left out. So are the newest as long as another process has them for itself, see free. passed
// says why, for those that are newer than the first candidate.
func (c *Catalogue) Candidates(spec string) (all []*Snapshot, passed []error, err error) {
	return c.candidates(spec, freeWithin)
}

func (c *Catalogue) candidates(spec string, within time.Duration) (all []*Snapshot, passed []error, err error) {
	f, err := c.find(spec)
	s := f.snapshot
	if err != nil || !f.newest {
		return []*Snapshot{s}, nil, err
	}
	home := &Catalogue{root: filepath.Dir(filepath.Dir(s.Dir)), open: c.open, trust: c.trust}
	all, _ = home.List(s.Schema.Job)
	all = slices.DeleteFunc(all, func(x *Snapshot) bool { return x.Schema.Sequence >= s.Schema.Sequence })
	slices.Reverse(all)
	all, busy := free(append([]*Snapshot{s}, all...), within)
	return all, append(f.passed, busy...), nil
}

// freeWithin is how long a commit or a removal may have a snapshot for itself until an older one takes its place.
const freeWithin = 2 * time.Second

// free passes over the newest snapshots that cannot be held: they are being committed or removed. It keeps the last that is left.
// A commit or a removal takes a moment, unless the process that does it stands still, such as a gorun on a node that hangs:
// its locks stay. passed says why.
func free(all []*Snapshot, within time.Duration) (left []*Snapshot, passed []error) {
	until := time.Now().Add(within)
	for {
		h := &Hold{}
		err := h.add(all[0])
		h.Release()
		switch {
		case !errors.Is(err, ErrNotFound) || len(all) == 1:
			return all, passed
		case time.Now().Before(until):
			time.Sleep(freeWithin / 100)
		default:
			all, passed = all[1:], append(passed, err)
		}
	}
}

// found is a snapshot that was found by what a user has typed.
type found struct {
	snapshot *Snapshot
	newest   bool    // this means the newest of a job
	passed   []error // why newer ones of the job were passed over
}

// newestIn finds the newest snapshot of a job.
func (c *Catalogue) newestIn(job string) (f found, err error) {
	f.newest = true
	f.snapshot, f.passed, err = c.readable(job)
	return f, err
}

// find finds a snapshot as Find and Candidates say.
func (c *Catalogue) find(spec string) (found, error) {
	if spec == "" {
		return found{}, fmt.Errorf("%q: %w", spec, ErrNotFound)
	}
	if spec == "latest" {
		return c.latestOfAll()
	}
	if f, ok, err := c.findPath(spec); ok {
		return f, err
	}
	prefix, seq, hasSeq := strings.Cut(spec, "/")
	job, err := c.FindJob(prefix)
	if err != nil {
		return found{}, err
	}
	if !hasSeq || seq == "latest" {
		return c.newestIn(job)
	}
	n, ok := parseSeq(seq)
	if !ok {
		return found{}, fmt.Errorf("%q: %w: %q is not a sequence number", spec, ErrNotFound, seq)
	}
	s, err := c.load(c.dir(job, n))
	return found{snapshot: s}, err
}

// FindJob completes a shortened job id.
func (c *Catalogue) FindJob(prefix string) (string, error) {
	jobs, err := c.Jobs()
	if err != nil {
		return "", err
	}
	jobs = slices.DeleteFunc(jobs, func(id string) bool { return !strings.HasPrefix(id, prefix) })
	switch {
	case prefix != "" && len(jobs) == 0:
		return "", c.noJob(prefix)
	case prefix == "":
		return "", fmt.Errorf("%q in %s: %w", prefix, c.root, ErrNotFound)
	case len(jobs) > 1:
		return "", fmt.Errorf("%q: %w: %s", prefix, ErrAmbiguous, strings.Join(jobs, ", "))
	}
	return jobs[0], nil
}

// noJob says why there is no job of this user's whose id begins so.
func (c *Catalogue) noJob(prefix string) error {
	others, err := c.Others()
	if err != nil {
		return err
	}
	for job, uid := range others {
		if strings.HasPrefix(job, prefix) {
			return fmt.Errorf("job %w", &owned.Error{Path: c.JobDir(job), UID: uid})
		}
	}
	return fmt.Errorf("%q in %s: %w", prefix, c.root, ErrNotFound)
}

// findPath treats spec as a path. ok is false if nothing has this name. It is also false if the name could be
// an id, and what has the name belongs to no snapshot.
func (c *Catalogue) findPath(spec string) (f found, ok bool, err error) {
	abs, err := filepath.Abs(spec)
	if err != nil {
		return f, false, nil
	}
	st, err := os.Stat(abs)
	if err != nil {
		if filepath.IsAbs(spec) || strings.HasPrefix(spec, ".") {
			return f, true, fmt.Errorf("%s: %w: %w", spec, ErrNotFound, err)
		}
		return f, false, nil
	}
	if !st.IsDir() {
		f.snapshot, err = c.reaching(loadByFile(abs, c.trust))
		return f, true, err
	}
	if s, err := c.load(abs); !errors.Is(err, ErrNotCommitted) {
		return found{snapshot: s}, true, err
	}
	// Without a schema: a job's folder, or an unfinished snapshot's, or neither.
	up, base := filepath.Split(abs)
	if id, err := uuid.Parse(base); err == nil && id.String() == base {
		f, err := (&Catalogue{root: filepath.Clean(up), open: c.open, trust: c.trust}).newestIn(base)
		return f, true, err
	}
	if _, isSeq := parseSeq(base); isSeq {
		return f, true, fmt.Errorf("%s: %w", spec, ErrNotCommitted)
	}
	if strings.ContainsRune(spec, filepath.Separator) {
		return f, true, fmt.Errorf("%s: %w: a folder without %s", spec, ErrNotFound, SchemaFile)
	}
	return f, false, nil
}

// loadByFile loads a snapshot by its schema, whatever the file's name, or by one of its images.
func loadByFile(path string, trust bool) (*Snapshot, error) {
	if filepath.Ext(path) == ".toml" {
		schema, err := readSchema(path, trust)
		if err != nil {
			return nil, err
		}
		return placed(filepath.Dir(path), schema)
	}
	s, err := load(filepath.Dir(path), trust)
	if errors.Is(err, ErrNotCommitted) && filepath.Ext(path) != ".img" {
		return nil, fmt.Errorf("%s: %w: it is neither a schema nor an image of one", path, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	for _, im := range s.Schema.Images {
		if im.File == filepath.Base(path) {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s: %w: it is neither a schema nor an image of one", path, ErrNotFound)
}

func (c *Catalogue) latestOfAll() (found, error) {
	jobs, err := c.Jobs()
	if err != nil {
		return found{}, err
	}
	var open, finished []found // the newest of each job
	var bad []error
	for _, job := range jobs {
		f, ended, err := c.newestOfJob(job)
		switch {
		case ended:
			finished = append(finished, f)
		case err == nil:
			open = append(open, f)
		case !errors.Is(err, ErrNotFound):
			bad = append(bad, err)
		}
	}
	if f := newestOf(open); f.snapshot != nil {
		return f, nil
	}
	err = fmt.Errorf("in %s: %w", c.root, ErrNotFound)
	if s := newestOf(finished).snapshot; s != nil {
		err = fmt.Errorf("latest: %w: the newest snapshot is %d of job %s; to go on from it all the same, name it: %s", ErrFinished, s.Schema.Sequence, s.Schema.Job, s.Schema.Job)
	}
	return found{}, errors.Join(append(bad, err)...)
}

// newestOfJob returns a job's newest snapshot, and whether the job has ended well since.
func (c *Catalogue) newestOfJob(job string) (f found, ended bool, err error) {
	if f, err = c.newestIn(job); err == nil {
		ended, err = f.snapshot.Finished()
	}
	return f, ended, err
}

// newestOf returns the snapshot that was committed last, if there is one.
func newestOf(all []found) found {
	if len(all) == 0 {
		return found{}
	}
	return slices.MaxFunc(all, func(a, b found) int {
		x, y := a.snapshot.Schema, b.snapshot.Schema
		return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.Job, y.Job))
	})
}
