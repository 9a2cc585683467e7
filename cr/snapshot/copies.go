package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Copy is one whole set of a snapshot's images. All copies of a snapshot have the same images, byte for byte, so a
// restart may read each of any of them.
type Copy struct {
	Store   string    `toml:"store,omitempty"`  // the kind of store; none: they lie beside the schema
	Folder  string    `toml:"folder,omitempty"` // the store's place
	Set     string    `toml:"set,omitempty"`    // the images' name there
	Created time.Time `toml:"created"`
}

// Place is where the copy lies, the zero value: beside the schema.
func (c Copy) Place() Place { return Place{c.Store, c.Folder} }

// Beside is the place of images that lie beside their schema.
var Beside = Place{}

// Copies lists where the images lie, the first copy first.
func (s *Schema) Copies() []Copy {
	return append([]Copy{{s.Store, s.Folder, s.Set, s.Created}}, s.More...)
}

// withCopies is the schema with these copies, at least one.
func (s *Schema) withCopies(all []Copy) Schema {
	t := *s
	t.Store, t.Folder, t.Set = all[0].Store, all[0].Folder, all[0].Set
	t.More = slices.Clone(all[1:])
	t.Format = s.format()
	if t.Store == "" && len(t.More) == 0 {
		t.Images = slices.Clone(s.Images)
		for i := range t.Images {
			t.Images[i].Node = "" // not known to that format
		}
	}
	return t
}

// Copies lists where the images lie, the first copy first.
func (s *Snapshot) Copies() []Copy { return s.Schema.Copies() }

// Copy finds the copy at a place.
func (s *Snapshot) Copy(p Place) (Copy, bool) {
	for _, c := range s.Copies() {
		if c.Place() == p {
			return c, true
		}
	}
	return Copy{}, false
}

// Only is the snapshot with one of its copies alone, as if the others were not there.
func (s *Snapshot) Only(c Copy) *Snapshot {
	t := s.Schema.withCopies([]Copy{c})
	t.Images = s.Schema.Images
	return &Snapshot{Dir: s.Dir, Schema: &t, open: s.open, trust: s.trust}
}

// Away reports whether a copy lies elsewhere than beside the schema.
func (s *Snapshot) Away() bool {
	return slices.ContainsFunc(s.Copies(), func(c Copy) bool { return c.Store != "" })
}

// CheckIn reads all of a rank's image in one copy.
func (s *Snapshot) CheckIn(c Copy, rank int) error {
	return s.checkCopy(c, s.Schema.Images[rank], true)
}

// At is the store of a copy and the name of its set there.
func (s *Snapshot) At(c Copy) (st store.Store, set string, err error) {
	if c.Store != "" {
		st, err = s.images(c)
		return st, c.Set, err
	}
	own := store.OpenDir(filepath.Dir(filepath.Dir(s.Dir)))
	if s.trust {
		own = own.Trusting()
	}
	return own, filepath.Base(filepath.Dir(s.Dir)) + "/" + filepath.Base(s.Dir), nil
}

// Copying is a further copy of a snapshot that is being made. It holds the snapshot. Commit or Abort ends it.
type Copying struct {
	c      *Catalogue
	s      *Snapshot
	at     Copy
	images store.Store
	hold   *Hold
	nodes  []string
	step   step
}

// Copy begins a further copy of a snapshot. Errors: fs.ErrExist if there is one already, ErrNotFound if the snapshot
// was removed.
//
//	Copy:    the place is noted durably, the snapshot is held
//	writers: Begin, Create, Commit in the store; what an earlier try has left there is used again
//	Commit:  a store that all nodes see is looked at: all images are there, with their sizes;
//	         the schema is written anew, with one copy more
//
// A crash before the last step leaves a set that no schema names. Another try goes on with it, and
// Sweep removes it when no process holds the snapshot.
func (c *Catalogue) Copy(s *Snapshot, to Place, nodes []string) (*Copying, error) {
	p, err := c.copyTo(s, to, nodes)
	if err != nil {
		return nil, fmt.Errorf("copy %s to %s: %w", s.Dir, to, err)
	}
	return p, nil
}

func (c *Catalogue) copyTo(s *Snapshot, to Place, nodes []string) (*Copying, error) {
	job, seq := s.Schema.Job, s.Schema.Sequence
	l, err := lockJob(c.JobDir(job))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	now, err := c.load(s.Dir)
	if errors.Is(err, ErrNotCommitted) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if _, ok := now.Copy(to); ok {
		return nil, fs.ErrExist
	}
	p := &Copying{c: c, s: now, at: Copy{Store: to.Kind, Folder: to.Folder}, nodes: nodes, hold: &Hold{}}
	if to == Beside {
		p.images = besides{store.OpenDir(c.root), setOf(job, seq)}
	} else {
		if p.images, err = c.at(to, nodes); err != nil {
			return nil, err
		}
		stores, err := noteStore(c.JobDir(job), to, nodes)
		if err != nil {
			return nil, err
		}
		p.at.Set = stores.set(job, to, seq)
	}
	if err := p.hold.add(now); err != nil {
		return nil, err
	}
	return p, nil
}

// besides is the folder of a committed snapshot as a store: its set is there.
type besides struct {
	*store.Dir
	set string
}

func (b besides) Begin(ctx context.Context, set string) error {
	if set == b.set {
		return nil
	}
	return b.Dir.Begin(ctx, set)
}

// Images is the store that the images go into, and the name of their set there, see Pending.Images.
func (p *Copying) Images() (st store.Store, set string) {
	if p.at.Store == "" {
		return p.images, setOf(p.s.Schema.Job, p.s.Schema.Sequence)
	}
	return p.images, p.at.Set
}

// Snapshot is what is copied.
func (p *Copying) Snapshot() *Snapshot { return p.s }

// Commit names the copy in the schema. All images are whole, durable and checked there. The snapshot is returned as it
// is then. After an error the copy does not count.
func (p *Copying) Commit(created time.Time) (*Snapshot, error) {
	if p.hold == nil {
		return nil, fmt.Errorf("commit a copy of %s: %w", p.s.Dir, ErrEnded)
	}
	defer p.end()
	p.at.Created = created
	s, err := p.commit()
	if err != nil {
		return nil, fmt.Errorf("commit a copy of %s in %s: %w", p.s.Dir, p.at.Place(), err)
	}
	return s, nil
}

func (p *Copying) commit() (*Snapshot, error) {
	if st, set := p.Images(); st.Shared() {
		if err := st.Commit(context.Background(), set); err != nil {
			return nil, explain(err)
		}
		// Their writer may have seen another folder of this name.
		if err := checkSet(st, set, p.at.Place(), p.s.Schema.Images); err != nil {
			return nil, err
		}
	}
	if err := p.step.did("names durable"); err != nil {
		return nil, err
	}
	l, err := lockJob(p.c.JobDir(p.s.Schema.Job))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	now, err := p.c.load(p.s.Dir)
	if err != nil {
		return nil, err
	}
	if _, ok := now.Copy(p.at.Place()); ok {
		return nil, fs.ErrExist
	}
	return now.rewrite(append(now.Copies(), p.at), p.step)
}

func (p *Copying) end() {
	p.hold.Release()
	p.hold = nil
}

// Abort gives up. With remove, what was written is removed; without, another try goes on with it. After Commit it does
// nothing.
func (p *Copying) Abort(remove bool) error {
	if p.hold == nil {
		return nil
	}
	defer p.end()
	if !remove {
		return nil
	}
	if p.at.Store == "" {
		return removeImages(p.s.Dir)
	}
	return p.c.removeFar([]far{{p.at.Place(), p.at.Set, p.nodes}})
}

// rewrite writes the schema again, with other copies. The caller holds the job's lock.
func (s *Snapshot) rewrite(all []Copy, step step) (*Snapshot, error) {
	t := s.Schema.withCopies(all)
	text, err := t.Encode()
	if err != nil {
		return nil, err
	}
	err = step.through([]named{
		{"schema written", func() error { return writePart(s.SchemaPath(), text) }},
		{"schema renamed", func() error { return explain(os.Rename(s.SchemaPath()+partSuffix, s.SchemaPath())) }},
		{"folder synced", func() error { return syncFolder(s.Dir) }},
	})
	if err != nil {
		return nil, err
	}
	return &Snapshot{s.Dir, &t, s.open, s.trust}, nil
}

// removeImages removes the images beside a schema that does not name them any more, or not yet.
func removeImages(dir string) error {
	d, err := owned.OpenFolder(dir)
	if err != nil {
		return explain(err)
	}
	defer d.Close()
	es, err := d.Entries()
	if err != nil {
		return explain(err)
	}
	var errs []error
	for _, e := range es {
		if n := e.Name(); strings.HasPrefix(n, "rank-") && n != SchemaFile {
			errs = append(errs, explain(d.Remove(n)))
		}
	}
	return errors.Join(append(errs, explain(d.Sync()))...)
}

// DropCopy removes the copy of a snapshot at a place: its entry first, then its bytes. Without any
// other copy the snapshot goes. Snapshots that build on it are the caller's care. It reports false
// if a process holds the snapshot. What cannot be removed of the bytes is an error, and is swept
// later.
func (c *Catalogue) DropCopy(s *Snapshot, at Place) (gone bool, err error) {
	job := s.Schema.Job
	l, err := lockJob(c.JobDir(job))
	if err != nil {
		return false, fmt.Errorf("drop %s: %w", s.Dir, err)
	}
	p := &pruner{c: c}
	now, err := c.load(s.Dir)
	switch {
	case errors.Is(err, ErrNotCommitted), errors.Is(err, ErrNotFound):
		gone, err = true, nil
	case err == nil:
		stay := slices.DeleteFunc(now.Copies(), func(x Copy) bool { return x.Place() == at })
		gone, err = p.drop(now, stay)
	}
	l.Close()
	if err != nil {
		err = fmt.Errorf("drop %s: %w", s.Dir, err)
	}
	// Without the lock: nodes may be slow.
	return gone, errors.Join(append(p.errs, err, c.removeFar(p.far))...)
}

// drop removes all but some copies of a snapshot, unless a process holds it. What lies elsewhere is
// noted in far.
func (p *pruner) drop(s *Snapshot, stay []Copy) (gone bool, err error) {
	all := s.Copies()
	switch {
	case len(stay) == len(all):
		return true, nil
	case len(stay) == 0:
		busy, err := removeUnlessHeld(s.Dir, nil)
		if busy || err != nil {
			return false, err
		}
	default:
		f, busy, err := flock(filepath.Join(s.Dir, lockFile), unix.LOCK_EX|unix.LOCK_NB)
		if busy || err != nil {
			return false, err
		}
		defer f.Close()
		if _, err := s.rewrite(stay, nil); err != nil {
			return false, err
		}
	}
	for _, c := range all {
		switch {
		case slices.Contains(stay, c):
		case c.Store == "" && len(stay) > 0:
			p.errs = append(p.errs, removeImages(s.Dir))
		case c.Store != "" && p.owns(s, c):
			p.far = append(p.far, far{c.Place(), c.Set, s.Nodes()})
		}
	}
	return true, nil
}

// half reports whether a set is what was left of a copy: its snapshot is there and does not name it. A copy in a place that goes by another name
// may have a set of the same name, if a gorun has made it that gave places no homes of their own.
func (c *Catalogue) half(job string, seq int, place Place, set string) bool {
	s, err := Load(c.dir(job, seq))
	return err == nil && !slices.ContainsFunc(s.Copies(), func(x Copy) bool { return x.Set == set && (x.Place() == place || !x.InMemory()) })
}

// removeHalf removes the rest of an unfinished copy, unless a process holds the snapshot: then
// that process may go on with it, such as the head whose newest it is. No process begins to as
// long as the lock is held.
func (c *Catalogue) removeHalf(job string, seq int, f far) (gone bool, err error) {
	l, busy, err := flock(filepath.Join(c.dir(job, seq), lockFile), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil || busy {
		return false, err
	}
	defer l.Close()
	if !c.half(job, seq, f.place, f.set) {
		return false, nil
	}
	return true, c.removeFar([]far{f})
}

// sweepBeside removes the images of a copy beside the schema that this does not name, unless a
// process holds the snapshot.
func (s *Snapshot) sweepBeside() (gone bool, err error) {
	if _, named := s.Copy(Beside); named {
		return false, nil
	}
	left, err := filepath.Glob(filepath.Join(s.Dir, "rank-*"))
	if err != nil || len(left) == 0 {
		return false, err
	}
	l, busy, err := flock(filepath.Join(s.Dir, lockFile), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil || busy {
		return false, err
	}
	defer l.Close()
	return true, removeImages(s.Dir)
}

// pieceErrors says why none of the copies of an image is good. Of one copy it is the reason itself.
func pieceErrors(copies []Copy, errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	var text bytes.Buffer
	for i, err := range errs {
		if i > 0 {
			text.WriteString("; ")
		}
		fmt.Fprintf(&text, "%s: %v", copies[i].Place(), err)
	}
	return &allBad{text.String(), errs}
}

// allBad are the errors of all copies of an image.
type allBad struct {
	text string
	errs []error
}

func (e *allBad) Error() string   { return "no copy is good: " + e.text }
func (e *allBad) Unwrap() []error { return e.errs }
