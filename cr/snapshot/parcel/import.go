package parcel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/storage/storeurl"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Import takes a parcel into a catalogue and returns its snapshot. Snapshots of it that are there already stay as they are, if they
// are the same and intact. After an error the catalogue is as before; only if the disk
// fails at the very end may it have got some that the snapshot builds on. Errors: ErrParcel for one that is cut off, altered or
// forged, ErrOther, those of the system.
func Import(c *snapshot.Catalogue, from io.Reader, opt Options) (*snapshot.Snapshot, error) {
	im := &importer{c: c, place: snapshot.Place(storeurl.Beside(c.Root(), opt.KeyFile)), told: progress{tell: opt.Progress}}
	defer im.discard()
	r, err := newReader(from, &im.told)
	if err != nil {
		return nil, err
	}
	defer r.close()
	im.r = r
	for _, step := range []func() error{im.begin, im.read, im.check, im.commit} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return c.Load(filepath.Join(c.JobDir(im.m.Job), strconv.Itoa(im.all[len(im.all)-1].schema.Sequence)))
}

// importer takes in one parcel.
type importer struct {
	c     *snapshot.Catalogue
	place snapshot.Place
	r     *reader
	m     *manifest
	told  progress
	fresh bool     // the catalogue did not have the job
	all   []*entry // oldest first
}

// entry is one snapshot of the parcel.
type entry struct {
	schema  *snapshot.Schema
	pending *snapshot.Pending // nil: it is there already
}

// begin reads the manifest and checks whether there is room.
func (im *importer) begin() (err error) {
	if im.m, err = im.r.manifest(); err != nil {
		return err
	}
	_, err = os.Lstat(im.c.JobDir(im.m.Job))
	im.fresh = errors.Is(err, fs.ErrNotExist)
	d, err := owned.MakeFolder(im.c.JobDir(im.m.Job))
	if err != nil {
		return err
	}
	d.Close()
	if _, err := im.c.Sweep(im.m.Job); err != nil { // what an earlier try has left
		return err
	}
	var st unix.Statfs_t
	if unix.Statfs(im.c.Root(), &st) == nil && int64(st.Bavail) < im.m.Bytes/int64(st.Bsize) {
		return fmt.Errorf("%s has room for %d bytes, the parcel has %d: free some, or import into another -ckpt-dir", im.c.Root(), int64(st.Bavail)*int64(st.Bsize), im.m.Bytes)
	}
	return nil
}

// read writes all images and the programs.
func (im *importer) read() error {
	for _, seq := range im.m.Snapshots {
		s, err := im.r.schema(im.m, seq)
		if err != nil {
			return err
		}
		if err := im.images(s); err != nil {
			return err
		}
	}
	for _, p := range im.m.Programs {
		if err := im.program(p); err != nil {
			return err
		}
	}
	return im.r.end()
}

// images reads the images of one snapshot. If that is there already, they are only passed through.
func (im *importer) images(s *snapshot.Schema) error {
	e := &entry{schema: s}
	im.all = append(im.all, e)
	there, err := im.there(s)
	if err != nil {
		return err
	}
	if !there {
		if e.pending, err = im.c.Readmit(im.m.Job, s.Sequence, im.place); err != nil {
			return err
		}
	}
	for _, image := range s.Images {
		if err := im.image(e, image); err != nil {
			return err
		}
	}
	return nil
}

func (im *importer) image(e *entry, image snapshot.Image) error {
	name := im.m.Job + "/" + strconv.Itoa(e.schema.Sequence) + "/" + image.File
	if e.pending == nil {
		return im.r.file(io.Discard, name, image.Size)
	}
	st, set := e.pending.Images()
	w, err := st.Create(context.Background(), set, image.File, store.Options{NoDirect: true, Size: image.Size})
	if err != nil {
		return err
	}
	if err := im.r.file(io.NewOffsetWriter(w, 0), name, image.Size); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Commit(image.Size)
}

// there reports whether the catalogue has a snapshot. It is an error if that is another one, or damaged.
func (im *importer) there(s *snapshot.Schema) (bool, error) {
	have, err := im.c.Load(filepath.Join(im.c.JobDir(im.m.Job), strconv.Itoa(s.Sequence)))
	if errors.Is(err, snapshot.ErrNotFound) || errors.Is(err, snapshot.ErrNotCommitted) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	same := have.Schema.Incarnation == s.Incarnation && have.Schema.NP == s.NP
	for i := 0; same && i < s.NP; i++ {
		same = have.Schema.Images[i].Digest == s.Images[i].Digest
	}
	if !same {
		return false, fmt.Errorf("%s: %w: import into another -ckpt-dir", have.Dir, ErrOther)
	}
	if err := have.Verify(nil); err != nil {
		return false, fmt.Errorf("it is there already, and damaged: %w (remove the job's snapshots, or import into another -ckpt-dir)", err)
	}
	return true, nil
}

// program keeps an executable or a library for the snapshots that are new.
func (im *importer) program(p program) error {
	name := im.m.Job + "/" + programsDir + "/" + p.Digest
	var users []*entry
	for _, e := range im.all {
		if e.pending != nil {
			users = append(users, e)
		}
	}
	if len(users) == 0 {
		return im.r.file(io.Discard, name, p.Size)
	}
	f, err := os.CreateTemp(users[0].pending.Dir, "program.*"+store.PartSuffix) // it goes with the folder, or below
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = im.r.file(f, name, p.Size)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, e := range users {
		keep := e.pending.KeepLibrary
		if e.schema.Program.Digest == p.Digest {
			keep = e.pending.KeepProgram
		}
		if err := keep(f.Name(), p.Digest); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrParcel, name, err)
		}
	}
	return nil
}

// check looks at all that was written, before anything of it can be seen.
func (im *importer) check() error {
	var schemas []*snapshot.Schema
	for _, e := range im.all {
		schemas = append(schemas, e.schema)
	}
	if err := snapshot.CheckChain(schemas); err != nil {
		return fmt.Errorf("%w: %w", ErrParcel, err)
	}
	for _, e := range im.all {
		if e.pending == nil {
			continue
		}
		if err := e.pending.Verify(*e.schema); err != nil {
			return fmt.Errorf("%w: snapshot %d: %w", ErrParcel, e.schema.Sequence, err)
		}
	}
	return nil
}

// commit makes the snapshots visible, the oldest first.
func (im *importer) commit() error {
	for _, e := range im.all {
		if e.pending == nil {
			continue
		}
		_, hold, err := e.pending.Commit(*e.schema)
		if err != nil {
			return err
		}
		defer hold.Release() // they are not pruned before all are there
	}
	return nil
}

// discard removes what was not committed, and the job's folder if it was made for that.
func (im *importer) discard() {
	for _, e := range im.all {
		if e.pending != nil {
			e.pending.Discard()
		}
	}
	if !im.fresh {
		return
	}
	if left, err := im.c.List(im.m.Job); err == nil && len(left) == 0 {
		im.c.Remove(im.m.Job)
	}
}
