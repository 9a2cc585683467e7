package image

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// Any range of a section is what the whole section has there.
func TestReadRange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "img")
	for _, codec := range []Codec{None, Snappy} {
		whole := data("mix", 100_000, 3)
		write(t, path, LocalMeta(), Options{Codec: codec, BlockSize: minBlock}, []part{{"x", "k", "", whole}})
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			off := rapid.IntRange(0, len(whole)).Draw(t, "off")
			n := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, len(whole))).Draw(t, "n")
			n = min(n, len(whole)-off)
			p := bytes.Repeat([]byte{0xa5}, n)
			if err := r.ReadRange("k", "x", uint64(off), p); err != nil || !bytes.Equal(p, whole[off:off+n]) {
				t.Fatalf("%d bytes at %d: %v", n, off, err)
			}
		})
		for _, bad := range [][2]int{{0, len(whole) + 1}, {len(whole), 1}, {len(whole) + 1, 0}} {
			if err := r.ReadRange("k", "x", uint64(bad[0]), make([]byte, bad[1])); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%v: %v", bad, err)
			}
		}
		if err := r.ReadRange("k", "y", 0, nil); !errors.Is(err, ErrNoSection) {
			t.Error(err)
		}
		r.Close()
	}
}
