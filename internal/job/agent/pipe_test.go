package agent

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/sealed"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/storeurl"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Of an image that is a file here the path is told; what is sealed is read for the rank; and one copy follows the other.
func TestOnShelf(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	key := filepath.Join(t.TempDir(), "key")
	if err := sealed.NewKey(key); err != nil {
		t.Fatal(err)
	}
	secret := storeurl.Place{Kind: store.KindDir, Folder: filepath.Join(dir, "sealed")}.Sealed(key)
	a := &agent{places: &places{open: map[string]store.Store{}}}
	a.order.Stores = map[string]wire.Store{
		"from":  {Kind: node.Kind, Folder: rawstring.String(filepath.Join(dir, "here")), Node: "a"},
		"from2": {Kind: secret.Kind, Folder: rawstring.String(secret.Folder)},
	}
	written(t, filepath.Join(dir, "here"), "j/h/1", "rank-00000.img")
	st, err := a.store("from2")
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Begin(ctx, "j/1"); err != nil {
		t.Fatal(err)
	}
	w, err := image.NewPiece{Context: ctx, Store: st, Set: "j/1", Name: "rank-00000.img"}.Create(image.LocalMeta(), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	a.order.Shelf = []wire.Image{{Path: "/beside/its/schema", Or: []wire.Image{
		{Store: "from", Set: "j/h/1", Piece: "rank-00000.img"}, {Store: "from2", Set: "j/1", Piece: "rank-00000.img"},
		{Store: "from2", Set: "j/2", Piece: "rank-00000.img", Node: "b"},
	}}}
	for copy, want := range []string{"/beside/its/schema", filepath.Join(dir, "here/j/h/1/rank-00000.img")} {
		if path, r, err := a.onShelf(ctx, 0, copy); path != want || r != nil || err != nil {
			t.Errorf("copy %d: %q, %v, %v", copy, path, r, err)
		}
	}
	path, r, err := a.onShelf(ctx, 0, 2)
	if err != nil || path != "" {
		t.Fatal(path, err)
	}
	img, err := image.OpenPiece(r, "sealed")
	if err != nil {
		t.Fatal(err)
	}
	img.Close()
	if _, _, err := a.onShelf(ctx, 0, 3); err == nil || !strings.Contains(err.Error(), "node b has written it") {
		t.Error(err)
	}
	if _, _, err := a.onShelf(ctx, 0, 4); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	for _, rank := range []int{-1, 1} {
		if _, _, err := a.onShelf(ctx, rank, 0); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}
