package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// sequenceFile holds the highest sequence number that was ever given out.
const sequenceFile = "sequence"

// maxSequence bounds that file, and others that hold a number.
const maxSequence = 1 << 10

// Pending is a snapshot being written. It holds the lock of its folder until Commit or Discard. One of these
// must be called. If the process dies instead, the folder becomes a leftover. Its methods are not for
// concurrent use.
type Pending struct {
	Dir  string // where the images go, absolute
	Job  string
	Seq  int
	c    *Catalogue
	lock *os.File
	// Where the images go.
	images store.Store
	place  Place  // zero: beside the schema
	set    string // their name in the store
	nodes  []string
	again  bool // the number is not a new one
	// The program that was kept for it, and libraries by their sums, locked until its schema names them.
	program   *Hold
	digest    string
	libraries map[string]*Hold
	step      step
}

// Begin makes the folder of a new snapshot of a job. No snapshot of the job ever had its number. That holds
// whatever was pruned, and for any number of restarts of the job that run at the same time.
func (c *Catalogue) Begin(job string) (*Pending, error) { return c.BeginIn(job, Place{}, nil) }

// BeginIn is Begin for images that go into a store elsewhere, in parts to some nodes.
func (c *Catalogue) BeginIn(job string, place Place, nodes []string) (*Pending, error) {
	if err := checkJob(job); err != nil {
		return nil, fmt.Errorf("begin a snapshot: %w", err)
	}
	if err := c.makeJob(job); err != nil {
		return nil, fmt.Errorf("begin a snapshot: %w", err)
	}
	p, err := c.begin(job, place, nodes, 0)
	if err != nil {
		return nil, fmt.Errorf("begin a snapshot: %w", err)
	}
	return p, nil
}

func checkJob(job string) error {
	if id, err := uuid.Parse(job); err != nil || id.String() != job {
		return fmt.Errorf("job %q is not a uuid", job)
	}
	return nil
}

// begin makes the folder, and the set elsewhere. want is the number; 0: a new one. The folder of the number is there before the set is. A store may be slow, and other
// checkpoints need the job's lock: so the set is begun without that.
func (c *Catalogue) begin(job string, place Place, nodes []string, want int) (*Pending, error) {
	p, err := c.beginFolder(job, place, nodes, want)
	if err != nil {
		return nil, err
	}
	if err := p.beginFar(); err != nil {
		return nil, errors.Join(err, p.removeFolder())
	}
	return p, nil
}

// beginFolder holds the job's lock, so the folder is not swept before it is locked.
func (c *Catalogue) beginFolder(job string, place Place, nodes []string, want int) (*Pending, error) {
	dir := c.JobDir(job)
	l, err := lockJob(dir)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	own := store.OpenDir(c.root)
	p := &Pending{Job: job, c: c, images: own, place: place, nodes: nodes, again: want > 0}
	var stores *jobStores
	if place != (Place{}) {
		var err error
		if p.images, err = c.at(place, nodes); err != nil {
			return nil, err
		}
		if stores, err = noteStore(dir, place, nodes); err != nil {
			return nil, err
		}
	}
	high, err := c.highest(job)
	if err != nil {
		return nil, err
	}
	seq := want
	for {
		if want == 0 {
			seq = high + 1
		}
		high = max(high, seq)
		if err := writeDurable(filepath.Join(dir, sequenceFile), []byte(strconv.Itoa(high)+"\n")); err != nil {
			return nil, err
		}
		// The lock may mean nothing on some network file systems; making the
		// folder is exclusive everywhere.
		err := own.Begin(context.Background(), setOf(job, seq))
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) || want > 0 {
			return nil, explain(err)
		}
	}
	p.Seq, p.Dir, p.set = seq, c.dir(job, seq), setOf(job, seq)
	if stores != nil {
		p.set = stores.set(job, place, seq)
	}
	var busy bool
	p.lock, busy, err = flock(filepath.Join(p.Dir, lockFile), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && busy {
		err = fmt.Errorf("%s: %w", p.Dir, ErrInUse)
	}
	if err == nil {
		err = errors.Join(syncFolder(dir), syncFolder(c.root))
	}
	if err != nil {
		if p.lock != nil {
			p.lock.Close()
		}
		return nil, errors.Join(err, owned.RemoveAll(p.Dir))
	}
	return p, nil
}

// highest returns the highest number ever given out. The file says it, and so do the folders if the
// file was removed.
func (c *Catalogue) highest(job string) (int, error) {
	high := 0
	b, err := readIn(filepath.Join(c.JobDir(job), sequenceFile), maxSequence, false)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, explain(err)
	}
	if n, ok := parseSeq(strings.TrimSpace(string(b))); ok {
		high = n
	}
	seqs, err := c.sequences(job)
	if len(seqs) > 0 {
		high = max(high, slices.Max(seqs))
	}
	return high, err
}

// setOf is the name of a snapshot in the store that the catalogue's own folder is.
func setOf(job string, seq int) string { return job + "/" + strconv.Itoa(seq) }

// Images is the store that the images go into, and the name of their set there. If the store is not Shared,
// each process that writes an image begins the set, and commits it before it says that the image is written.
func (p *Pending) Images() (st store.Store, set string) { return p.images, p.set }

// ImagePath is where a rank writes an image that goes beside the schema.
func (p *Pending) ImagePath(rank int) string { return filepath.Join(p.Dir, ImageFile(rank)) }

// Commit makes the snapshot valid. It fills in the schema's Job, Sequence and, if that is 0, Format, and whether the program
// is kept. The images must be durable, and must exist with the sizes that the schema says. So must all that
// they build on. The Hold protects the new snapshot and its chain from being pruned until it is released. After
// an error nothing is committed. If making it durable failed, nothing can be relied on. Call Discard then.
func (p *Pending) Commit(s Schema) (*Snapshot, *Hold, error) {
	if p.lock == nil {
		return nil, nil, fmt.Errorf("commit %s: %w", p.Dir, ErrEnded)
	}
	p.complete(&s)
	snap, hold := &Snapshot{Dir: p.Dir, Schema: &s, open: p.c.open}, &Hold{}
	path := filepath.Join(p.Dir, SchemaFile)
	text, err := s.Encode()
	if err != nil {
		return nil, nil, fmt.Errorf("commit %s: %w", p.Dir, err)
	}
	if err := p.step.through([]named{
		{"chain held", func() error { return hold.addChain(snap) }},
		{"images checked", func() error { return p.checkImages(&s) }},
		{"folder synced", p.syncImages},
		{"schema written", func() error { return writePart(path, text) }},
		{"schema renamed", func() error { return explain(os.Rename(path+partSuffix, path)) }},
		{"schema's folder synced", func() error { return syncFolder(p.Dir) }},
		{"job's folder synced", func() error { return syncFolder(filepath.Dir(p.Dir)) }},
		{"lock shared", p.share},
	}); err != nil {
		hold.Release()
		return nil, nil, fmt.Errorf("commit %s: %w", p.Dir, err)
	}
	hold.files = append(hold.files, p.lock)
	for _, h := range p.kept() {
		hold.files = append(hold.files, h.files...)
	}
	p.lock, p.program, p.libraries = nil, nil, nil
	return snap, hold, nil
}

// complete fills in what the schema says of the snapshot's place.
func (p *Pending) complete(s *Schema) {
	s.Job, s.Sequence = p.Job, p.Seq
	if p.place != (Place{}) {
		s.Store, s.Folder, s.Set = p.place.Kind, p.place.Folder, p.set
	}
	s.Program.Kept = p.program != nil
	s.Program.Libraries = slices.Sorted(maps.Keys(p.libraries))
	s.Format = s.format()
}

// kept holds what was kept for it.
func (p *Pending) kept() []*Hold {
	all := slices.Collect(maps.Values(p.libraries))
	if p.program != nil {
		all = append(all, p.program)
	}
	return all
}

// share turns the writer's lock into a user's. The change is not atomic, so
// the job's lock keeps Prune away meanwhile.
func (p *Pending) share() error {
	l, err := lockJob(filepath.Dir(p.Dir))
	if err != nil {
		return err
	}
	defer l.Close()
	if err := unix.Flock(int(p.lock.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", p.lock.Name(), err)
	}
	return nil
}

func (p *Pending) checkImages(s *Schema) error {
	if p.program != nil && s.Program.Digest != p.digest {
		return fmt.Errorf("%w: kept is %s, the schema names %s", ErrProgram, p.digest, s.Program.Digest)
	}
	if !p.images.Shared() {
		return nil // the writer of an image has seen it whole and durable
	}
	if p.place != (Place{}) {
		return checkSet(p.images, p.set, p.place, s.Images)
	}
	for _, im := range s.Images {
		if err := checkFile(filepath.Join(p.Dir, im.File), im); err != nil {
			return &ImageError{Rank: im.Rank, Path: filepath.Join(p.Dir, im.File), Err: err}
		}
	}
	return nil
}

// checkSet checks that a store has the images with the sizes announced.
func checkSet(st store.Store, set string, at Place, images []Image) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all, err := st.List(ctx, set)
	if err != nil {
		return err
	}
	have := map[string]int64{}
	for _, info := range all {
		have[info.Name] = info.Size
	}
	for _, im := range images {
		if size, ok := have[im.File]; !ok || size != im.Size {
			return &ImageError{Rank: im.Rank, Path: set + "/" + im.File, Err: fmt.Errorf("%w: %d bytes in %s, the schema says %d", ErrImage, size, at, im.Size)}
		}
	}
	return nil
}

// beginFar begins the set in a store that all nodes see. In parts on the nodes, those do it that write there.
func (p *Pending) beginFar() error {
	if p.place == (Place{}) || !p.images.Shared() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := p.images.Begin(ctx, p.set)
	if p.again && errors.Is(err, fs.ErrExist) { // of a snapshot that was removed
		if err = p.images.Remove(ctx, p.set); err == nil {
			err = p.images.Begin(ctx, p.set)
		}
	}
	if err != nil {
		return fmt.Errorf("images in %s: %w", p.place, err)
	}
	return nil
}

// syncImages makes the names of the images durable.
func (p *Pending) syncImages() error {
	if !p.images.Shared() {
		return nil
	}
	return explain(p.images.Commit(context.Background(), p.set))
}

// checkFile checks that an image is a file of the announced size.
func checkFile(path string, im Image) error {
	st, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%w: not a regular file", ErrImage)
	case st.Size() != im.Size:
		return fmt.Errorf("%w: %d bytes, the schema says %d", ErrImage, st.Size(), im.Size)
	}
	return nil
}

// Discard removes all that was written, the schema first. The number stays used. After Commit or Discard it
// does nothing.
func (p *Pending) Discard() error {
	if p.lock == nil {
		return nil
	}
	for _, h := range p.kept() {
		h.Release() // a sweep takes it if no snapshot names it
	}
	err := p.removeFolder()
	if p.place != (Place{}) {
		err = errors.Join(err, p.c.removeFar([]far{{p.place, p.set, p.nodes}}))
	}
	if err != nil {
		return fmt.Errorf("discard %s: %w", p.Dir, err)
	}
	return nil
}

// removeFolder removes the folder and lets its lock go.
func (p *Pending) removeFolder() error {
	defer p.lock.Close()
	defer func() { p.lock = nil }()
	// A sweep must not meet the folder while it is being removed.
	l, err := lockJob(filepath.Dir(p.Dir))
	if err != nil {
		return err
	}
	defer l.Close()
	return remove(p.Dir)
}

// remove removes a snapshot's folder. A crash on the way leaves a folder without a schema.
func remove(dir string) error {
	job, err := owned.OpenFolder(filepath.Dir(dir))
	if err != nil {
		return explain(err)
	}
	defer job.Close()
	d, err := job.Folder(filepath.Base(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return explain(err)
	}
	defer d.Close()
	if err = d.Remove(SchemaFile); err == nil {
		err = d.Sync()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain(err)
	}
	return explain(errors.Join(job.RemoveAll(filepath.Base(dir)), job.Sync()))
}

// FileDigest is the SHA-256 of a file in hex, as a schema holds it of the
// program.
func FileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
