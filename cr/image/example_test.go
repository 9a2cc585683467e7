package image_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
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

// An image may lie in a store as well as in a file.
func ExampleNewWriter() {
	dir, _ := os.MkdirTemp("", "image")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	var st store.Store = store.OpenDir(dir)
	if err := st.Begin(ctx, "job/1"); err != nil {
		log.Fatal(err)
	}
	piece, err := st.Create(ctx, "job/1", "rank-0.img", store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	w, err := image.NewWriter(piece, "rank 0", image.LocalMeta(), image.Options{})
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

	at, err := st.Open(ctx, "job/1", "rank-0.img")
	if err != nil {
		log.Fatal(err)
	}
	r, err := image.OpenPiece(at, "rank 0")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	fmt.Println(len(r.Sections()), r.Digest() == sum.Digest)
	// Output: 1 true
}

func ExampleOpenPiece() { ExampleNewWriter() }

// A Source is opened when it is needed, wherever the image lies.
func ExampleSource() {
	dir, _ := os.MkdirTemp("", "image")
	defer os.RemoveAll(dir)
	path := sample(dir)
	in := image.Piece{Context: context.Background(), Store: store.OpenDir(filepath.Dir(dir)), Set: filepath.Base(dir), Name: filepath.Base(path)}
	for _, src := range append(image.Paths([]string{path}), in) {
		r, err := src.Open()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(r.Sections()), src.String() == path)
		r.Close()
	}
	// Output:
	// 1 true
	// 1 true
}

func ExamplePath_Open()    { ExampleSource() }
func ExamplePath_String()  { ExampleSource() }
func ExamplePaths()        { ExampleSource() }
func ExamplePiece_Open()   { ExampleSource() }
func ExamplePiece_String() { ExampleSource() }

// A part of a large section is read without the rest of it.
func ExampleReader_ReadRange() {
	dir, _ := os.MkdirTemp("", "image")
	defer os.RemoveAll(dir)

	r, err := image.Open(sample(dir))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	p := make([]byte, 3)
	fmt.Println(r.ReadRange("text", "greeting", 2, p), string(p))
	// Output: <nil> llo
}

func ExampleReader_Bytes() {
	dir, _ := os.MkdirTemp("", "image")
	defer os.RemoveAll(dir)

	r, err := image.Open(sample(dir))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	fmt.Println(r.Digested())
	for _, s := range r.Sections() {
		p, err := r.Bytes(s.Kind, s.Name)
		fmt.Printf("%s %v %v\n", p, s.Fits(), err)
	}
	// Output:
	// true
	// hello <nil> <nil>
}

func ExampleSection_Fits()    { ExampleReader_Bytes() }
func ExampleReader_Digested() { ExampleReader_Bytes() }
