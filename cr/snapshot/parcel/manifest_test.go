package parcel

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzManifest reads what is the first member of an archive from anywhere: the names of the
// others, and how much memory and room they get, follow from it.
func FuzzManifest(f *testing.F) {
	digest := strings.Repeat("0a", 32)
	f.Add([]byte("format = 1\njob = \"8a6e0804-2bd0-4672-b79d-d97027f9071a\"\nsnapshots = [1, 3]\nbytes = 4096\n[[programs]]\ndigest = \"" + digest + "\"\nsize = 12\n"))
	f.Add([]byte("format = 2\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest(b)
		if err != nil {
			if !errors.Is(err, ErrParcel) {
				t.Fatal(err)
			}
			return
		}
		for _, p := range m.Programs {
			if len(p.Digest) != len(digest) || p.Size < 0 {
				t.Fatalf("program %+v", p)
			}
		}
		if !filepath.IsLocal(m.Job) || strings.ContainsAny(m.Job, "/.") || len(m.Snapshots) == 0 || m.Snapshots[0] < 1 || m.Bytes < 0 {
			t.Fatalf("%+v", m)
		}
	})
}
