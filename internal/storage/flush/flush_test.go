package flush

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
)

// house has images in one folder and room for copies in another.
type house struct {
	from, to From
	target   Set
	pieces   []Piece
}

func newHouse(t *testing.T, n int) *house {
	a, b := store.OpenDir(t.TempDir()), store.OpenDir(t.TempDir())
	h := &house{from: From{a, "j/1"}, to: From{b, "k/1"}, target: Set{b, "k/1"}}
	if err := a.Begin(t.Context(), "j/1"); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprintf("rank-%05d.img", i)
		path, _ := a.Path("j/1", name)
		w, err := image.Create(path, image.LocalMeta(), image.Options{})
		if err == nil {
			err = w.Section("x", "value", "t", bytes.Repeat([]byte{byte(i), 2, 3}, 700_000))
		}
		if err != nil {
			t.Fatal(err)
		}
		sum, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		h.pieces = append(h.pieces, Piece{name, sum.Size, sum.Digest})
	}
	return h
}

func (h *house) run(t *testing.T, opt Options) error {
	return Pieces(t.Context(), h.from, h.target, h.pieces, opt)
}

func (h *house) path(of From, i int) string {
	return filepath.Join(of.Store.(*store.Dir).Root(), of.Name, h.pieces[i].Name)
}

// Copies are good, a second run writes nothing, and one that is damaged or missing is made again.
func TestPieces(t *testing.T) {
	h := newHouse(t, 3)
	for range 2 {
		var told int64
		if err := h.run(t, Options{Progress: func(n int64) { told += n }}); err != nil {
			t.Fatal(err)
		}
		if want := h.pieces[0].Size + h.pieces[1].Size + h.pieces[2].Size; told != want {
			t.Errorf("told of %d bytes of %d", told, want)
		}
	}
	keep, err := os.Stat(h.path(h.to, 2))
	if err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(h.path(h.to, 0))
	b[5000] ^= 1
	if err := errors.Join(os.WriteFile(h.path(h.to, 0), b, 0o600), os.Remove(h.path(h.to, 1)), h.run(t, Options{})); err != nil {
		t.Fatal(err)
	}
	for _, im := range h.pieces {
		if err := Check(t.Context(), h.to.Store, h.to.Name, im); err != nil {
			t.Error(err)
		}
	}
	if now, err := os.Stat(h.path(h.to, 2)); err != nil || !os.SameFile(keep, now) {
		t.Errorf("a good copy was written again: %v", err)
	}
}

// A source that is damaged or gone is an error that names the piece, and nothing of it is taken for good. The others are copied.
func TestBadSource(t *testing.T) {
	h := newHouse(t, 2)
	b, _ := os.ReadFile(h.path(h.from, 0))
	b[5000] ^= 1
	if err := os.WriteFile(h.path(h.from, 0), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.run(t, Options{}); !errors.Is(err, image.ErrCorrupt) || !strings.Contains(err.Error(), h.pieces[0].Name) {
		t.Errorf("damaged: %v", err)
	}
	os.Remove(h.path(h.from, 0))
	os.Remove(h.path(h.to, 0))
	if err := h.run(t, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
	if err := Check(t.Context(), h.to.Store, h.to.Name, h.pieces[1]); err != nil {
		t.Errorf("the other one: %v", err)
	}
}

// A copy that is given up half way leaves no piece by name, and the next run ends it.
func TestGivenUp(t *testing.T) {
	h := newHouse(t, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("newer")
	err := Pieces(ctx, h.from, h.target, h.pieces, Options{Rate: 1, Progress: func(int64) { cancel(why) }})
	if !errors.Is(err, why) {
		t.Fatal(err)
	}
	if es, _ := os.ReadDir(filepath.Dir(h.path(h.to, 0))); len(es) != 0 {
		t.Errorf("left: %v", es)
	}
	if err := h.run(t, Options{}); err != nil {
		t.Fatal(err)
	}
}
