package parcel

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// Options of Write and Import.
type Options struct {
	Progress func(done, total int64) // is told of bytes that have passed; may be nil
	KeyFile  string                  // of Import: the images are sealed with the key of this file; "": they are not
	Trust    bool                    // of ImportFile: another user may have written the file

	Libraries []Library // of Write: what the images need beside the executable
}

// Library is a file that images need, and its SHA-256 in hex.
type Library struct{ Path, Digest string }

// Report says what is in a parcel.
type Report struct {
	Snapshots []int    // oldest first
	Bytes     int64    // of images and programs
	Without   string   // the path of an executable that was not taken along; the restart has to name it
	Changed   []string // paths of libraries that were not, as others lie there by now
}

// Write writes the parcel of a snapshot. Every image that it needs is read and checked first; of
// several copies the first one that is good is taken. The snapshot cannot be removed meanwhile.
// Errors: those of Snapshot.Verify; ErrStore, store.ErrUnreachable if an image is out of reach.
func Write(to io.Writer, s *snapshot.Snapshot, opt Options) (Report, error) {
	r, err := write(to, s, opt)
	if err != nil {
		err = fmt.Errorf("parcel of %s: %w", s.Dir, err)
	}
	return r, err
}

func write(to io.Writer, s *snapshot.Snapshot, opt Options) (r Report, err error) {
	lasting := s.Lasting()
	if lasting == nil {
		return r, errors.New("its images are in the memory of its job, which alone can read them (gorun checkpoint -stop writes them to -ckpt-dir)")
	}
	hold, err := s.Hold()
	if err != nil {
		return r, err
	}
	defer hold.Release()
	chain, err := lasting.Chain()
	if err != nil {
		return r, err
	}
	slices.Reverse(chain)
	w, err := newWriter(to, chain, opt)
	if err != nil {
		return r, err
	}
	if err = w.all(); err == nil {
		err = w.close()
	}
	if err = errors.Join(err, w.zw.Close()); err != nil {
		return r, err
	}
	r = Report{Snapshots: w.m.Snapshots, Bytes: w.m.Bytes}
	if len(w.m.Programs) == 0 {
		r.Without = s.Schema.Program.Path
	}
	r.Changed = w.changed
	return r, nil
}

// writer writes one parcel.
type writer struct {
	chain []*snapshot.Snapshot // oldest first
	m     manifest
	from  [][]snapshot.Copy // of each: where each rank's image is good
	files []string          // of m.Programs
	zw    *zstd.Encoder
	tw    *tar.Writer
	sums  bytes.Buffer
	told  progress
	buf   []byte

	changed []string // libraries that are not there
}

func newWriter(to io.Writer, chain []*snapshot.Snapshot, opt Options) (*writer, error) {
	newest := chain[len(chain)-1].Schema
	w := &writer{chain: chain, m: manifest{Format: Format, Job: newest.Job}, buf: make([]byte, 1<<20)}
	for _, s := range chain {
		w.m.Snapshots = append(w.m.Snapshots, s.Schema.Sequence)
		w.m.Bytes += s.Bytes()
	}
	last := chain[len(chain)-1]
	err := w.findProgram(last)
	if err == nil && len(w.files) > 0 {
		err = w.findLibraries(last, opt.Libraries)
	}
	if err != nil {
		return nil, err
	}
	if w.zw, err = zstd.NewWriter(to, zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(4<<20)); err != nil {
		return nil, err
	}
	w.tw = tar.NewWriter(w.zw)
	w.told = progress{opt.Progress, 0, 2 * w.m.Bytes} // all is read twice
	return w, nil
}

// findProgram looks for the executable: it is kept, or still has its path. Native images are worth nothing without.
func (w *writer) findProgram(s *snapshot.Snapshot) error {
	p := s.Schema.Program
	path := s.ProgramPath()
	if path == "" {
		path = p.Path
	}
	digest, err := snapshot.FileDigest(path)
	switch {
	case err == nil && digest == p.Digest:
	case p.Kept:
		return errors.Join(fmt.Errorf("kept program %s: %w", path, snapshot.ErrProgram), err)
	default:
		return nil
	}
	return w.take(path, digest)
}

// take has a file in the parcel.
func (w *writer) take(path, digest string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	w.files, w.m.Programs = append(w.files, path), append(w.m.Programs, program{digest, st.Size()})
	w.m.Bytes += st.Size()
	return nil
}

// findLibraries looks for those that have their paths still, or are kept.
func (w *writer) findLibraries(s *snapshot.Snapshot, all []Library) error {
	for _, digest := range s.Schema.Program.Libraries {
		all = append([]Library{{s.LibraryPath(digest), digest}}, all...)
	}
	for _, l := range all {
		if w.m.has(l.Digest) {
			continue
		}
		if digest, err := snapshot.FileDigest(l.Path); err != nil || digest != l.Digest {
			w.changed = append(w.changed, l.Path)
			continue
		}
		if err := w.take(l.Path, l.Digest); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) all() error {
	for _, p := range w.m.Programs {
		w.told.add(p.Size)
	}
	for _, s := range w.chain { // before anything is written
		if err := w.verify(s); err != nil {
			return err
		}
	}
	text, err := w.m.encode()
	if err != nil {
		return err
	}
	if err := w.add(manifestName, int64(len(text)), 0o600, bytes.NewReader(text)); err != nil {
		return err
	}
	for i, s := range w.chain {
		if err := w.snapshot(s, w.from[i]); err != nil {
			return fmt.Errorf("snapshot %d: %w", s.Schema.Sequence, err)
		}
	}
	for i := range w.files {
		if err := w.program(i); err != nil {
			return err
		}
	}
	return nil
}

// verify finds a good copy of each image of a snapshot.
func (w *writer) verify(s *snapshot.Snapshot) error {
	var from []snapshot.Copy
	for rank, im := range s.Schema.Images {
		c, err := good(s, rank)
		if err != nil {
			return &snapshot.ImageError{Rank: rank, Path: s.Image(rank).String(), Err: err}
		}
		from = append(from, c)
		w.told.add(im.Size)
	}
	w.from = append(w.from, from)
	return nil
}

// good finds a copy in which a rank's image is good.
func good(s *snapshot.Snapshot, rank int) (snapshot.Copy, error) {
	var errs []error
	for _, c := range s.Copies() {
		err := s.CheckIn(c, rank)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return snapshot.Copy{}, errors.Join(errs...)
}

func (w *writer) snapshot(s *snapshot.Snapshot, from []snapshot.Copy) error {
	in := *s.Schema
	in.Program.Kept = len(w.m.Programs) > 0
	in.Program.Libraries = w.m.libraries(in.Program.Digest)
	schema := in.Detached()
	text, err := schema.Encode()
	if err != nil {
		return err
	}
	base := w.m.Job + "/" + strconv.Itoa(schema.Sequence) + "/"
	if err := w.add(base+snapshot.SchemaFile, int64(len(text)), 0o600, bytes.NewReader(text)); err != nil {
		return err
	}
	for rank, im := range schema.Images {
		if err := w.image(base+im.File, s, from[rank], im); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	return nil
}

func (w *writer) image(name string, s *snapshot.Snapshot, from snapshot.Copy, im snapshot.Image) error {
	st, set, err := s.At(from)
	if err != nil {
		return err
	}
	r, err := st.Open(context.Background(), set, im.File)
	if err != nil {
		return err
	}
	defer r.Close()
	return w.add(name, im.Size, 0o600, io.NewSectionReader(r, 0, r.Size()))
}

func (w *writer) program(i int) error {
	f, err := os.Open(w.files[i])
	if err != nil {
		return err
	}
	defer f.Close()
	p := w.m.Programs[i]
	return w.add(w.m.Job+"/"+programsDir+"/"+p.Digest, p.Size, 0o500, f)
}

// epoch is the time of all members.
var epoch = time.Unix(0, 0).UTC()

// add writes a member and notes its sum.
func (w *writer) add(name string, size, mode int64, from io.Reader) error {
	if err := w.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: mode, ModTime: epoch, Format: formatOf(size)}); err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(w.tw, h, &w.told), io.LimitReader(from, size), w.buf)
	if err == nil && n < size {
		err = fmt.Errorf("%w: it has %d bytes, %d were announced", io.ErrUnexpectedEOF, n, size)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(&w.sums, "%x  %s\n", h.Sum(nil), name)
	return nil
}

// formatOf is the oldest format of tar that can say so many bytes.
func formatOf(size int64) tar.Format {
	if size < 8<<30 {
		return tar.FormatUSTAR
	}
	return tar.FormatPAX
}

// close writes the sums and ends the archive.
func (w *writer) close() error {
	text := bytes.Clone(w.sums.Bytes())
	return errors.Join(w.add(sumsName, int64(len(text)), 0o600, bytes.NewReader(text)), w.tw.Close())
}
