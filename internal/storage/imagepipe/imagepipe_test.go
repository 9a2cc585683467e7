package imagepipe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/testing/storetest"
)

// piece offers a store's piece for writing and for reading.
func piece(t *testing.T) (st store.Store, write, read *Pipe) {
	t.Helper()
	st = store.OpenDir(t.TempDir())
	if err := st.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	write, err := Writer("p.img", func(ctx context.Context) (store.Writer, error) {
		return st.Create(ctx, "s", "p.img", store.Options{NoDirect: true})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(write.Close)
	if read, err = Reader("p.img", func(ctx context.Context) (store.Reader, error) { return st.Open(ctx, "s", "p.img") }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(read.Close)
	return st, write, read
}

// TestImage writes an image to a store by way of its owner, and reads it so.
func TestImage(t *testing.T) {
	st, write, read := piece(t)
	data := storetest.Data(5<<20+123, 7)
	w, err := File(write.Path).Create(image.LocalMeta(), image.Options{Codec: image.Snappy})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Section("x", "array", "", data); err != nil {
		t.Fatal(err)
	}
	sum, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := st.Stat(t.Context(), "s", "p.img"); err != nil || info.Size != sum.Size {
		t.Fatalf("%+v, %v, want %d bytes", info, err, sum.Size)
	}
	for range 2 {
		r, err := File(read.Path).Open()
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(data))
		if err := r.ReadSection("array", "x", got); err != nil || !bytes.Equal(got, data) || r.Digest() != sum.Digest {
			t.Error(err, r.Digest(), sum.Digest)
		}
		if err := errors.Join(r.Verify(), r.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestFile: a path that is no outlet's is a file's.
func TestFile(t *testing.T) {
	f := File(filepath.Join(t.TempDir(), "img"))
	w, err := f.Create(image.LocalMeta(), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

// TestGivenUp: neither a writer that gives up nor one whose owner does leaves a piece, and nobody can come later.
func TestGivenUp(t *testing.T) {
	st, write, read := piece(t)
	for i := range 2 {
		w, err := File(write.Path).Create(image.LocalMeta(), image.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Section("x", "array", "", storetest.Data(3<<20, 1)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := w.Abort(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		write.Close()
		if _, err := w.Commit(); err == nil {
			t.Error("committed although its owner has given up")
		}
	}
	if all, err := st.List(t.Context(), "s"); len(all) > 0 || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := File(write.Path).Create(image.LocalMeta(), image.Options{}); err == nil {
		t.Error("an outlet that is closed takes an image")
	}
	if _, err := File(read.Path).Open(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a piece that is not there was opened: %v", err)
	}
	if _, err := os.Create(write.Path); err == nil {
		t.Error("the path of an outlet can be a file's")
	}
}

// TestFailure: the child is told why.
func TestFailure(t *testing.T) {
	reason := errors.New("the store is full")
	o, err := Writer("p", func(context.Context) (store.Writer, error) { return nil, reason })
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	w, err := File(o.Path).Create(image.LocalMeta(), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(); err == nil || !strings.Contains(err.Error(), reason.Error()) {
		t.Errorf("%v, want %v", err, reason)
	}
	if _, err := Writer("../p", nil); !errors.Is(err, store.ErrName) {
		t.Error(err)
	}
}

// memory is a piece in memory.
type memory struct{ p []byte }

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if off > 1<<20 {
		return 0, errors.New("too far")
	}
	m.p = append(m.p, make([]byte, max(0, int(off)+len(p)-len(m.p)))...)
	return copy(m.p[off:], p), nil
}
func (m *memory) Commit(int64) error                      { return nil }
func (m *memory) Abort() error                            { return nil }
func (m *memory) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(m.p).ReadAt(p, off) }
func (m *memory) Size() int64                             { return int64(len(m.p)) }
func (m *memory) Close() error                            { return nil }

// answers reads what was recorded and takes answers.
type answers struct {
	io.Reader
	bytes.Buffer
}

func (a *answers) Read(p []byte) (int, error) { return a.Reader.Read(p) }

// FuzzServe serves frames that nobody ought to send. Each answer is well formed.
func FuzzServe(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add(append(frame{kindWrite, 5, 3}.encode(), "abc"...), true)
	f.Add(append(append(frame{kindWrite, 5, 3}.encode(), "abc"...), frame{kindEnd, 8, 0}.encode()...), true)
	f.Add(append(frame{kindSize, 0, 0}.encode(), frame{kindRead, 2, 100}.encode()...), false)
	f.Add(append(frame{kindOpen, 0, 1}.encode(), frame{kindRead, 2, 100}.encode()...), false)
	f.Add(frame{kindOpen, 3, 0}.encode(), false)
	f.Add(frame{kindRead, -5, 1 << 30}.encode(), false)
	f.Fuzz(func(t *testing.T, p []byte, write bool) {
		c := &answers{Reader: bytes.NewReader(p)}
		m := &memory{p: []byte("a piece")}
		if write {
			serveWriter(c, func() (store.Writer, error) { return m, nil })
		} else if len(p) > 0 && p[0] == kindOpen {
			serveShelf(c, func(rank, copy int) (string, store.Reader, error) {
				switch rank {
				case 0:
					return "", m, nil
				case 1:
					return "/a/path", nil, nil
				}
				return "", nil, io.EOF
			})
		} else {
			serveReader(c, func() (store.Reader, error) { return m, nil })
		}
		buf := make([]byte, maxFrame)
		for c.Len() > 0 {
			if _, err := readAnswer(&c.Buffer, buf); errors.Is(err, ErrProtocol) {
				t.Fatal(err)
			}
		}
	})
}

// FuzzAnswer reads answers that nobody ought to give.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 'a', 'b'}, 5)
	f.Add([]byte{1, 0, 0, 0, 2, 'a', 'b'}, 0)
	f.Add([]byte{2, 255, 255, 255, 255}, 5)
	f.Fuzz(func(t *testing.T, p []byte, n int) {
		buf := make([]byte, min(max(n, 0), 1<<10))
		got, err := readAnswer(bytes.NewReader(p), buf)
		if got < 0 || got > len(buf) || err == nil && binary.BigEndian.Uint32(p[1:]) != uint32(got) {
			t.Fatal(got, err)
		}
	})
}

// TestShelf: of the images of a snapshot each is read where it is, and one copy after the other.
func TestShelf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "img")
	w, err := File(path).Create(image.LocalMeta(), image.Options{NoDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Section("x", "array", "", []byte("rows")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	o, err := Shelf(func(_ context.Context, rank, copy int) (string, store.Reader, error) {
		switch {
		case rank == 2:
			return "", nil, errors.New("the node is away")
		case copy == 0:
			return path, nil, nil
		case copy == 1:
			r, err := store.OpenFile(path)
			return "", r, err
		}
		return "", nil, io.EOF
	})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	lib := Library(o.Path)
	for copy := range 2 {
		r, err := lib.Image(1, copy).Open()
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 2)
		if err := r.ReadRange("array", "x", 1, p); err != nil || string(p) != "ow" {
			t.Errorf("copy %d: %q, %v", copy, p, err)
		}
		r.Close()
	}
	if _, err := lib.Image(1, 2).Open(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if _, err := lib.Image(2, 0).Open(); err == nil || !strings.Contains(err.Error(), "rank 2") || !strings.Contains(err.Error(), "node is away") {
		t.Error(err)
	}
	if _, err := Library(path).Image(0, 0).Open(); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
	if _, err := File(o.Path).Open(); err == nil || !strings.Contains(err.Error(), "build it again") {
		t.Errorf("a program that knows of one image alone: %v", err)
	}
}
