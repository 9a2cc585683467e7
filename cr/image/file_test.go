package image

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun-mpi/gorun/cr/store"
)

// TestRefusedDirectWriteGoesOnCached provokes the refusal with an offset that
// no direct write may have.
func TestRefusedDirectWriteGoesOnCached(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	piece, err := store.CreateFile(path, store.Options{}, false)
	if err != nil {
		t.Fatal(err)
	}
	o := newOutput(piece)
	if !o.isDirect() {
		t.Skip("no direct writes on this file system")
	}
	p := data("noise", 10_000, 1)
	if err := o.write(p, 100, alignedBuffer(16_384)); err != nil {
		t.Fatal(err)
	}
	if o.isDirect() {
		t.Skip("this file system takes direct writes at any offset")
	}
	if err := o.write(p, 16_384, alignedBuffer(16_384)); err != nil {
		t.Fatal(err)
	}
	if err := piece.Commit(16_384 + int64(len(p))); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got[100:10_100], p) || !bytes.Equal(got[16_384:], p) {
		t.Fatal(len(got), err)
	}
}

func TestDirectAndCachedImagesAreEqual(t *testing.T) {
	dir := t.TempDir()
	parts := []part{{"a", "k", "", data("mix", 3<<20, 5)}, {"b", "k", "", data("noise", 70_001, 6)}, {"c", "k", "", []byte("small")}}
	var digests [2]string
	for i, cached := range []bool{false, true} {
		sum := write(t, filepath.Join(dir, "img"), Meta{Job: "j"}, Options{NoDirect: cached, Workers: 1, Codec: Snappy}, parts)
		if cached && sum.Direct {
			t.Error("written directly although told not to")
		}
		digests[i] = sum.Digest
	}
	if digests[0] != digests[1] {
		t.Fatal("the way of writing shows in the image")
	}
}
