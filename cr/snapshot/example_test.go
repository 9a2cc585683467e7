package snapshot_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot"
)

const job = "8a6e0804-2bd0-4672-b79d-d97027f9071a"

// take takes a snapshot of a job of one rank.
func take(c *snapshot.Catalogue) *snapshot.Hold {
	p, err := c.Begin(job)
	if err != nil {
		log.Fatal(err)
	}
	meta := image.LocalMeta()
	meta.Job, meta.Incarnation, meta.Size, meta.Seq, meta.Backend = job, "1f", 1, p.Seq, "self"
	w, err := image.Create(p.ImagePath(0), meta, image.Options{})
	if err != nil {
		log.Fatal(err)
	}
	sum, err := w.Commit()
	if err != nil {
		p.Discard()
		log.Fatal(err)
	}
	_, hold, err := p.Commit(snapshot.Schema{
		Incarnation: "1f", Created: time.Now(), NP: 1, Backend: "self", Transport: "tcp",
		Program:   snapshot.Program{Path: "/bin/solver", Digest: strings.Repeat("0", 64)},
		Placement: []snapshot.Placement{{Rank: 0, Host: "localhost"}},
		Images:    []snapshot.Image{{Rank: 0, File: snapshot.ImageFile(0), Size: sum.Size, Digest: sum.Digest, Codec: string(sum.Codec)}},
	})
	if err != nil {
		p.Discard()
		log.Fatal(err)
	}
	return hold
}

func Example() {
	dir, _ := os.MkdirTemp("", "snapshot")
	defer os.RemoveAll(dir)
	c, err := snapshot.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		take(c).Release()
	}
	s, err := c.Find("8a6e") // a shortened job id: its newest
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("newest:", s.Schema.Sequence, s.Verify(nil))

	pruned, err := c.Prune(job, 2)
	fmt.Println("removed:", pruned.Removed, err)
	// Output:
	// newest: 3 <nil>
	// removed: [1] <nil>
}

func ExampleSnapshot_Hold() {
	dir, _ := os.MkdirTemp("", "snapshot")
	defer os.RemoveAll(dir)
	c, _ := snapshot.Open(dir)
	take(c).Release()
	take(c).Release()

	first, _ := c.Find("8a6e/1")
	hold, _ := first.Hold() // a restart uses it
	pruned, _ := c.Prune(job, 1)
	fmt.Println(pruned.Removed, pruned.InUse)
	hold.Release()
	// Output: [] [1]
}

func ExampleCatalogue_Sweep() {
	dir, _ := os.MkdirTemp("", "snapshot")
	defer os.RemoveAll(dir)
	c, _ := snapshot.Open(dir)
	p, _ := c.Begin(job) // being written: not touched
	gone, err := c.Sweep(job)
	fmt.Println(len(gone), err)
	p.Discard()
	// Output: 0 <nil>
}
