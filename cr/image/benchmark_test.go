package image_test

import (
	"math/rand/v2"
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

// What 1 GB that cannot be compressed costs to write and to read, with all sums. TMPDIR says on which disk. The processor time of the
// writer is told, because most of it is behind the program.
func BenchmarkGigabyte(b *testing.B) {
	data := make([]byte, 1<<30)
	rand.NewChaCha8([32]byte{}).Read(data)
	path := filepath.Join(b.TempDir(), "image")
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		var cpu float64
		for b.Loop() {
			w, err := image.Create(path, image.LocalMeta(), image.Options{})
			if err == nil {
				err = w.Section("data", "value", "", data)
			}
			var sum image.Summary
			if err == nil {
				sum, err = w.Commit()
			}
			if err != nil {
				b.Fatal(err)
			}
			cpu += sum.CPU.Seconds()
		}
		b.ReportMetric(cpu/float64(b.N), "cpu-s/op")
	})
	b.Run("read", func(b *testing.B) {
		r, err := image.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := r.ReadSection("value", "data", data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
