package parcel

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// reader reads a parcel member by member. All that it says of the content is checked as far as one pass can.
type reader struct {
	zr   *zstd.Decoder
	tr   *tar.Reader
	sums bytes.Buffer // of the members so far
	told *progress
	left int64 // of the bytes that the manifest announces
	room int64 // what further schemas may have, in bytes
	buf  []byte
}

func newReader(from io.Reader, told *progress) (*reader, error) {
	zr, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return nil, err
	}
	return &reader{zr: zr, tr: tar.NewReader(zr), told: told, room: maxSchema, buf: make([]byte, 1<<20)}, nil
}

func (r *reader) close() { r.zr.Close() }

// next goes to the next member, which has to have this name.
func (r *reader) next(name string) (size int64, err error) {
	h, err := r.tr.Next()
	switch {
	case err == io.EOF:
		return 0, fmt.Errorf("%w: it ends before %s", ErrParcel, name)
	case err != nil:
		return 0, fmt.Errorf("%w: cut off or altered before %s: %w", ErrParcel, name, err)
	case h.Typeflag != tar.TypeReg || h.Name != name:
		return 0, fmt.Errorf("%w: %.200q is where %s belongs", ErrParcel, h.Name, name)
	case h.Size < 0:
		return 0, fmt.Errorf("%w: %s has %d bytes", ErrParcel, name, h.Size)
	}
	return h.Size, nil
}

// copy passes on the content of the member that it is at, and notes its sum.
func (r *reader) copy(to io.Writer, name string, size int64) error {
	h := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(onlyWriter{to}, h), struct{ io.Reader }{io.TeeReader(r.tr, r.told)}, r.buf)
	var we *writeError
	switch {
	case errors.As(err, &we):
		return fmt.Errorf("%s: %w", name, we.error)
	case err != nil:
		return fmt.Errorf("%w: %s is cut off or altered: %w", ErrParcel, name, err)
	case n != size:
		return fmt.Errorf("%w: %s has %d bytes of %d", ErrParcel, name, n, size)
	}
	fmt.Fprintf(&r.sums, "%x  %s\n", h.Sum(nil), name)
	return nil
}

// onlyWriter tells errors of the target from those of the parcel.
type onlyWriter struct{ io.Writer }

type writeError struct{ error }

func (w onlyWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

// text reads a member that is held in memory.
func (r *reader) text(name string, most int64) ([]byte, error) {
	size, err := r.next(name)
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d", ErrParcel, name, size, most)
	}
	var b bytes.Buffer
	if err := r.copy(&b, name, size); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// file reads an image or a program, of which the size is known.
func (r *reader) file(to io.Writer, name string, want int64) error {
	size, err := r.next(name)
	if err != nil {
		return err
	}
	if size != want || size > r.left {
		return fmt.Errorf("%w: %s has %d bytes instead of %d, of %d that are left of those announced", ErrParcel, name, size, want, r.left)
	}
	r.left -= size
	return r.copy(to, name, size)
}

func (r *reader) manifest() (*manifest, error) {
	text, err := r.text(manifestName, maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(text)
	if err == nil {
		r.left, r.told.total = m.Bytes, m.Bytes
	}
	return m, err
}

// schema reads the schema of one of the snapshots.
func (r *reader) schema(m *manifest, seq int) (*snapshot.Schema, error) {
	name := m.Job + "/" + strconv.Itoa(seq) + "/" + snapshot.SchemaFile
	text, err := r.text(name, r.room)
	if err != nil {
		return nil, err
	}
	r.room -= int64(len(text))
	s, err := snapshot.ParseSchema(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrParcel, name, err)
	case s.Job != m.Job || s.Sequence != seq:
		return nil, fmt.Errorf("%w: %s is of snapshot %d of job %s", ErrParcel, name, s.Sequence, s.Job)
	case s.Store != "" || len(s.More) > 0:
		return nil, fmt.Errorf("%w: %s has images elsewhere", ErrParcel, name)
	case s.Program.Kept != m.has(s.Program.Digest), !slices.Equal(s.Program.Libraries, m.libraries(s.Program.Digest)):
		return nil, fmt.Errorf("%w: %s and %s do not agree on its program", ErrParcel, name, manifestName)
	}
	for i, im := range s.Images {
		if im.File != snapshot.ImageFile(i) {
			return nil, fmt.Errorf("%w: %s: image %.80q of rank %d", ErrParcel, name, im.File, i)
		}
	}
	return s, nil
}

// libraries are the sums of all programs but the one of this sum, in their order in a schema.
func (m *manifest) libraries(but string) (all []string) {
	for _, p := range m.Programs {
		if p.Digest != but {
			all = append(all, p.Digest)
		}
	}
	slices.Sort(all)
	return all
}

func (m *manifest) has(digest string) bool {
	for _, p := range m.Programs {
		if p.Digest == digest {
			return true
		}
	}
	return false
}

// end compares the sums and makes sure that nothing follows.
func (r *reader) end() error {
	want := bytes.Clone(r.sums.Bytes())
	have, err := r.text(sumsName, int64(len(want)))
	if err != nil {
		return err
	}
	if name, ok := differ(have, want); !ok {
		return fmt.Errorf("%w: %s was altered: its sum is not that of %s", ErrParcel, name, sumsName)
	}
	if h, err := r.tr.Next(); err == nil {
		return fmt.Errorf("%w: %.200q is after the last member", ErrParcel, h.Name)
	} else if err != io.EOF {
		return fmt.Errorf("%w: cut off or altered at its end: %w", ErrParcel, err)
	}
	if n, err := io.Copy(io.Discard, r.zr); err != nil || n > 0 {
		return errors.Join(fmt.Errorf("%w: cut off or altered at its end, or something follows", ErrParcel), err)
	}
	return nil
}

// differ compares two lists of sums, and names the first member in which they differ.
func differ(have, want []byte) (name string, same bool) {
	if bytes.Equal(have, want) {
		return "", true
	}
	h, w := bytes.Split(have, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range w {
		if i >= len(h) || !bytes.Equal(h[i], w[i]) {
			if _, name, ok := bytes.Cut(w[i], []byte("  ")); ok {
				return string(name), false
			}
		}
	}
	return sumsName, false
}
