package image_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gorun-mpi/gorun/cr/image"
)

// sample writes an image with one section and returns its path.
func sample(dir string) string {
	meta := image.LocalMeta()
	meta.Rank, meta.Size, meta.Backend = 0, 4, "example"
	w, err := image.Create(filepath.Join(dir, "rank-0.img"), meta, image.Options{Codec: image.Snappy})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Section("greeting", "text", "string", []byte("hello")); err != nil {
		log.Fatal(err)
	}
	sum, err := w.Commit()
	if err != nil {
		log.Fatal(err)
	}
	return sum.Path
}

func ExampleCreate() {
	dir, _ := os.MkdirTemp("", "image")
	defer os.RemoveAll(dir)
	fmt.Println(filepath.Base(sample(dir)))
	// Output: rank-0.img
}

func ExampleOpen() {
	dir, _ := os.MkdirTemp("", "image")
	defer os.RemoveAll(dir)

	r, err := image.Open(sample(dir))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	fmt.Printf("rank %d of %d\n", r.Meta().Rank, r.Meta().Size)
	for _, s := range r.Sections() {
		p := make([]byte, s.Size)
		if err := r.ReadSection(s.Kind, s.Name, p); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s %s: %s\n", s.Kind, s.Name, s.Type, p)
	}
	// Output:
	// rank 0 of 4
	// text greeting string: hello
}

func ExampleVerify() {
	dir, _ := os.MkdirTemp("", "image")
	defer os.RemoveAll(dir)

	path := sample(dir)
	_, err := image.Verify(path)
	fmt.Println(err)

	os.Truncate(path, 100)
	_, err = image.Verify(path)
	fmt.Println(err != nil)
	// Output:
	// <nil>
	// true
}

func ExampleWriter_Abort() {
	dir, _ := os.MkdirTemp("", "image")
	defer os.RemoveAll(dir)

	w, err := image.Create(filepath.Join(dir, "rank-0.img"), image.LocalMeta(), image.Options{})
	if err != nil {
		log.Fatal(err)
	}
	w.Abort()
	left, _ := os.ReadDir(dir)
	fmt.Println(len(left), "files left")
	// Output: 0 files left
}

func ExampleParseCodec() {
	_, err := image.ParseCodec("lz4")
	fmt.Println(err)
	// Output: unknown codec "lz4" (none, snappy or zstd)
}
