package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// Catalogue is the folder that holds the snapshots of many jobs. It relies on
// nothing in memory: any number of processes may use the same folder.
type Catalogue struct {
	root     string
	programs sync.Map // kept programs that were read: path -> programState
}

// Snapshot is one that is committed.
type Snapshot struct {
	Dir    string // absolute
	Schema *Schema
}

// ImagePath is the path of a rank's image.
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

// Jobs lists the jobs that have a folder, in the order of their ids.
func (c *Catalogue) Jobs() ([]string, error) {
	es, err := os.ReadDir(c.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(err)
	}
	var jobs []string
	for _, e := range es {
		if id, err := uuid.Parse(e.Name()); err == nil && id.String() == e.Name() && e.IsDir() {
			jobs = append(jobs, e.Name())
		}
	}
	return jobs, nil
}

// sequences lists the numbers of all folders of a job, committed or not.
func (c *Catalogue) sequences(job string) ([]int, error) {
	es, err := os.ReadDir(c.JobDir(job))
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

// parseSeq reads a sequence number as folders are named: no sign, no zero in
// front.
func parseSeq(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0 && strconv.Itoa(n) == s
}

func (c *Catalogue) dir(job string, seq int) string {
	return filepath.Join(c.JobDir(job), strconv.Itoa(seq))
}

// List returns the committed snapshots of a job, oldest first. Those whose
// schema cannot be read are left out and reported in the error, beside the
// others.
func (c *Catalogue) List(job string) ([]*Snapshot, error) {
	seqs, err := c.sequences(job)
	if err != nil {
		return nil, err
	}
	var all []*Snapshot
	var bad []error
	for _, seq := range seqs {
		s, err := Load(c.dir(job, seq))
		switch {
		case err == nil:
			all = append(all, s)
		case errors.Is(err, ErrNotCommitted), errors.Is(err, ErrNotFound):
		default:
			bad = append(bad, err)
		}
	}
	return all, errors.Join(bad...)
}

// Load reads the snapshot in the folder dir. Errors: ErrNotFound,
// ErrNotCommitted, those of ReadSchema.
func Load(dir string) (*Snapshot, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s, err := ReadSchema(filepath.Join(abs, SchemaFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, e := os.Stat(abs); e != nil {
			return nil, fmt.Errorf("%s: %w", abs, ErrNotFound)
		}
		return nil, fmt.Errorf("%s: %w", abs, ErrNotCommitted)
	}
	if err != nil {
		return nil, err
	}
	return &Snapshot{abs, s}, nil
}

// Latest is the newest committed snapshot of a job: the one with the highest
// number, whatever the clocks said, over all restarts of it. One whose schema
// is damaged is an error, not passed over: going on from an older one is the
// user's choice.
func (c *Catalogue) Latest(job string) (*Snapshot, error) {
	seqs, err := c.sequences(job)
	if err != nil {
		return nil, err
	}
	for _, seq := range slices.Backward(seqs) {
		s, err := Load(c.dir(job, seq))
		if errors.Is(err, ErrNotCommitted) || errors.Is(err, ErrNotFound) {
			continue
		}
		return s, err
	}
	return nil, fmt.Errorf("job %s in %s: %w", job, c.root, ErrNotFound)
}

// LatestOf is the newest snapshot that the given run of a job has taken, or
// else parent, the one it was restarted from (0: none). Two restarts that run
// side by side each find their own.
func (c *Catalogue) LatestOf(job, incarnation string, parent int) (*Snapshot, error) {
	all, err := c.List(job)
	for _, s := range slices.Backward(all) {
		if s.Schema.Incarnation == incarnation {
			return s, err
		}
	}
	if parent > 0 {
		return Load(c.dir(job, parent))
	}
	return nil, errors.Join(fmt.Errorf("run %s of job %s in %s: %w", incarnation, job, c.root, ErrNotFound), err)
}

// Find finds a committed snapshot by what a user types:
//
//	PATH            of a schema, of a snapshot's folder, of an image in it, or of a
//	                job's folder (its newest)
//	latest          the newest of all jobs, by the time of their commit
//	JOB             newest of the job; the id may be shortened as long as it is unique
//	JOB/SEQ         that one; also JOB/latest
//
// Errors: ErrNotFound, ErrAmbiguous naming the candidates, ErrNotCommitted,
// ErrSchema, ErrFormat.
func (c *Catalogue) Find(spec string) (*Snapshot, error) {
	if spec == "" {
		return nil, fmt.Errorf("%q: %w", spec, ErrNotFound)
	}
	if spec == "latest" {
		return c.latestOfAll()
	}
	if s, ok, err := c.findPath(spec); ok {
		return s, err
	}
	prefix, seq, hasSeq := strings.Cut(spec, "/")
	job, err := c.FindJob(prefix)
	if err != nil {
		return nil, err
	}
	if !hasSeq || seq == "latest" {
		return c.Latest(job)
	}
	n, ok := parseSeq(seq)
	if !ok {
		return nil, fmt.Errorf("%q: %w: %q is not a sequence number", spec, ErrNotFound, seq)
	}
	return Load(c.dir(job, n))
}

// FindJob completes a shortened job id.
func (c *Catalogue) FindJob(prefix string) (string, error) {
	jobs, err := c.Jobs()
	if err != nil {
		return "", err
	}
	jobs = slices.DeleteFunc(jobs, func(id string) bool { return !strings.HasPrefix(id, prefix) })
	switch {
	case prefix == "" || len(jobs) == 0:
		return "", fmt.Errorf("%q in %s: %w", prefix, c.root, ErrNotFound)
	case len(jobs) > 1:
		return "", fmt.Errorf("%q: %w: %s", prefix, ErrAmbiguous, strings.Join(jobs, ", "))
	}
	return jobs[0], nil
}

// findPath treats spec as a path; ok is false if there is nothing of this name,
// or something that has to do with no snapshot while its name could be an id.
func (c *Catalogue) findPath(spec string) (s *Snapshot, ok bool, err error) {
	abs, err := filepath.Abs(spec)
	if err != nil {
		return nil, false, nil
	}
	st, err := os.Stat(abs)
	if err != nil {
		if filepath.IsAbs(spec) || strings.HasPrefix(spec, ".") {
			return nil, true, fmt.Errorf("%s: %w: %w", spec, ErrNotFound, err)
		}
		return nil, false, nil
	}
	if !st.IsDir() {
		s, err := loadByFile(abs)
		return s, true, err
	}
	if s, err := Load(abs); !errors.Is(err, ErrNotCommitted) {
		return s, true, err
	}
	// Without a schema: a job's folder, or an unfinished snapshot's, or neither.
	up, base := filepath.Split(abs)
	if id, err := uuid.Parse(base); err == nil && id.String() == base {
		s, err := (&Catalogue{root: filepath.Clean(up)}).Latest(base)
		return s, true, err
	}
	if _, isSeq := parseSeq(base); isSeq {
		return nil, true, fmt.Errorf("%s: %w", spec, ErrNotCommitted)
	}
	if strings.ContainsRune(spec, filepath.Separator) {
		return nil, true, fmt.Errorf("%s: %w: a folder without %s", spec, ErrNotFound, SchemaFile)
	}
	return nil, false, nil
}

// loadByFile loads a snapshot by its schema, whatever that is called, or by one
// of its images.
func loadByFile(path string) (*Snapshot, error) {
	if filepath.Ext(path) == ".toml" {
		schema, err := ReadSchema(path)
		if err != nil {
			return nil, err
		}
		return &Snapshot{filepath.Dir(path), schema}, nil
	}
	s, err := Load(filepath.Dir(path))
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

func (c *Catalogue) latestOfAll() (*Snapshot, error) {
	jobs, err := c.Jobs()
	if err != nil {
		return nil, err
	}
	var newest []*Snapshot
	var bad []error
	for _, job := range jobs {
		s, err := c.Latest(job)
		if err == nil {
			newest = append(newest, s)
		} else if !errors.Is(err, ErrNotFound) {
			bad = append(bad, err)
		}
	}
	if len(newest) == 0 {
		return nil, errors.Join(append(bad, fmt.Errorf("in %s: %w", c.root, ErrNotFound))...)
	}
	return slices.MaxFunc(newest, func(a, b *Snapshot) int {
		return cmp.Or(a.Schema.Created.Compare(b.Schema.Created), cmp.Compare(a.Schema.Job, b.Schema.Job))
	}), nil
}
