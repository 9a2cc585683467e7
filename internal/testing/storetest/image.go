package storetest

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
)

// PutImage writes an image with one section, in a set that is begun if it was not, and returns its digest. Equal data makes equal images.
func PutImage(t testing.TB, s store.Store, set, piece string, data []byte) (digest string) {
	t.Helper()
	if err := s.Begin(t.Context(), set); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	w, err := s.Create(t.Context(), set, piece, store.Options{Size: int64(len(data))})
	if err != nil {
		t.Fatal(err)
	}
	img, err := image.NewWriter(w, piece, image.Meta{Job: "j", Backend: "test"}, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := img.Section("x", "data", "", data); err != nil {
		t.Fatal(err)
	}
	sum, err := img.Commit()
	if err == nil {
		err = s.Commit(t.Context(), set)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sum.Digest
}
