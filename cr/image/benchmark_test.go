package image_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
)

// What an image of a few bytes costs, as that of a device whose arrays are valid on the host.
func BenchmarkSmall(b *testing.B) {
	path := filepath.Join(b.TempDir(), "image")
	for b.Loop() {
		w, err := image.Create(path, image.LocalMeta(), image.Options{Workers: 2, Passing: true, NoFolder: true})
		if err == nil {
			err = w.Section("objects", "device", "", []byte("{}"))
		}
		if err == nil {
			_, err = w.Commit()
		}
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
