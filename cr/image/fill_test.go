package image

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestSectionFill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "img")
	opt := Options{BlockSize: 8192, Workers: 3, Codec: Snappy}
	w, err := Create(path, testMeta(), opt)
	if err != nil {
		t.Fatal(err)
	}
	// Section i holds i*1000 bytes; every third is left out, and one is there only by its type.
	for i := range 30 {
		err := w.SectionFill(fmt.Sprint(i), "k", 30_000, func(p []byte) (int, string, error) {
			if len(p) != 30_000 {
				t.Errorf("buffer of %d bytes", len(p))
			}
			if i%3 == 0 {
				return 0, "", nil
			}
			if i == 1 {
				return 0, "only", nil
			}
			return copy(p, data("mix", i*1000, uint64(i))), fmt.Sprint("t", i), nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sum, err := w.Commit()
	if err != nil || sum.Sections != 20 {
		t.Fatalf("%+v, %v", sum, err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	for i := range 30 {
		s, ok := r.Lookup("k", fmt.Sprint(i))
		if ok == (i%3 == 0) {
			t.Errorf("section %d there: %v", i, ok)
		}
		if !ok || i == 1 {
			continue
		}
		got := make([]byte, s.Size)
		err := r.ReadSection("k", s.Name, got)
		if err != nil || s.Type != fmt.Sprint("t", i) || !bytes.Equal(got, data("mix", i*1000, uint64(i))) {
			t.Errorf("section %+v differs: %v", s, err)
		}
	}
}

func TestSectionFillFails(t *testing.T) {
	bad := errors.New("no more")
	for name, fill := range map[string]func([]byte) (int, string, error){
		"error":    func([]byte) (int, string, error) { return 0, "", bad },
		"too much": func(p []byte) (int, string, error) { return len(p) + 1, "", nil },
		"type":     func([]byte) (int, string, error) { return 1, string(make([]byte, maxType+1)), nil },
	} {
		dir := t.TempDir()
		w, err := Create(filepath.Join(dir, "img"), testMeta(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.SectionFill("s", "k", 100, fill)
		_, err = w.Commit()
		if want := map[string]error{"error": bad}[name]; err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		if names, _ := os.ReadDir(dir); len(names) > 0 {
			t.Errorf("%s: %v left", name, names)
		}
	}
	w, err := Create(filepath.Join(t.TempDir(), "img"), testMeta(), Options{BlockSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.SectionFill("s", "k", 4*4096+1, nil); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}
