package parcel_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/snapshot/parcel"
)

// take takes a snapshot of a job of one rank.
func take(c *snapshot.Catalogue) *snapshot.Snapshot {
	p, err := c.Begin("8a6e0804-2bd0-4672-b79d-d97027f9071a")
	if err != nil {
		log.Fatal(err)
	}
	meta := image.LocalMeta()
	meta.Job, meta.Incarnation, meta.Size, meta.Seq, meta.Backend = p.Job, "1f", 1, p.Seq, "self"
	w, err := image.Create(p.ImagePath(0), meta, image.Options{})
	if err != nil {
		log.Fatal(err)
	}
	sum, err := w.Commit()
	if err != nil {
		log.Fatal(err)
	}
	s, hold, err := p.Commit(snapshot.Schema{
		Incarnation: "1f", Created: time.Now(), NP: 1, Backend: "self", Transport: "tcp",
		Program:   snapshot.Program{Path: "/opt/solver", Digest: strings.Repeat("0", 64)},
		Placement: []snapshot.Placement{{Rank: 0, Host: "localhost"}},
		Images:    []snapshot.Image{{Rank: 0, File: snapshot.ImageFile(0), Size: sum.Size, Digest: sum.Digest, Codec: string(sum.Codec)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	hold.Release()
	return s
}

// A snapshot goes to another folder of snapshots by way of one file.
func Example() {
	dir, _ := os.MkdirTemp("", "parcel")
	defer os.RemoveAll(dir)
	here, err := snapshot.Open(filepath.Join(dir, "here"))
	if err != nil {
		log.Fatal(err)
	}
	there, err := snapshot.Open(filepath.Join(dir, "there"))
	if err != nil {
		log.Fatal(err)
	}
	file := filepath.Join(dir, "snapshot.tar.zst")
	r, err := parcel.WriteFile(file, take(here), parcel.Options{})
	fmt.Println(r.Snapshots, "without", r.Without, err)
	sealed, err := parcel.IsSealed(file)
	fmt.Println("sealed:", sealed, err)
	s, err := parcel.ImportFile(there, file, parcel.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Schema.Sequence, s.Verify(nil))
	// Output:
	// [1] without /opt/solver <nil>
	// sealed: false <nil>
	// 1 <nil>
}

func ExampleWriteFile() { Example() }

func ExampleImportFile() { Example() }

func ExampleIsSealed() { Example() }

// A parcel can be a stream, such as through ssh.
func ExampleWrite() {
	dir, _ := os.MkdirTemp("", "parcel")
	defer os.RemoveAll(dir)
	here, err := snapshot.Open(filepath.Join(dir, "here"))
	if err != nil {
		log.Fatal(err)
	}
	there, err := snapshot.Open(filepath.Join(dir, "there"))
	if err != nil {
		log.Fatal(err)
	}
	s := take(here)
	r, w, err := os.Pipe()
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		parcel.Write(w, s, parcel.Options{})
		w.Close()
	}()
	s, err = parcel.Import(there, r, parcel.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Schema.Sequence)
	// Output:
	// 1
}

func ExampleImport() { ExampleWrite() }
