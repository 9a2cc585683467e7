package snapshot_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
)

// A snapshot gets a second copy, in a store of its own, and then goes on without the first one.
func ExampleCatalogue_Copy() {
	c, remove := three()
	defer remove()
	other, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(other)
	c.Stores(func(p snapshot.Place, _ []string) (store.Store, error) { return store.OpenDir(p.Folder), nil })
	s, _ := c.Latest(job)
	to := snapshot.Place{Kind: "dir", Folder: other}
	p, err := c.Copy(s, to, nil)
	if err != nil {
		log.Fatal(err)
	}
	st, set := p.Images()
	ctx := context.Background()
	if err := st.Begin(ctx, set); err != nil {
		log.Fatal(err)
	}
	for rank, im := range s.Schema.Images {
		b, _ := os.ReadFile(s.ImagePath(rank))
		w, err := st.Create(ctx, set, im.File, store.Options{NoDirect: true, Size: im.Size})
		if err == nil {
			if _, err = w.WriteAt(b, 0); err == nil {
				err = w.Commit(im.Size)
			}
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	s, err = p.Commit(time.Now())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(s.Copies()), s.Away(), s.Copies()[0].Place())
	_, name, _ := s.At(s.Copies()[0])
	fmt.Println(name == fmt.Sprintf("%s/%d", job, s.Schema.Sequence), s.CheckIn(s.Copies()[1], 0))
	gone, err := c.DropCopy(s, snapshot.Beside)
	fmt.Println(gone, err)
	s, _ = c.Latest(job)
	_, there := s.Copy(to)
	fmt.Println(len(s.Copies()), there, s.Only(s.Copies()[0]).Verify(nil))
	// Output:
	// 2 true beside the schema
	// true <nil>
	// true <nil>
	// 1 true <nil>
}

func ExampleCatalogue_DropCopy() { ExampleCatalogue_Copy() }
func ExampleCopying_Images()     { ExampleCatalogue_Copy() }
func ExampleCopying_Commit()     { ExampleCatalogue_Copy() }
func ExampleSnapshot_Copies()    { ExampleCatalogue_Copy() }
func ExampleSnapshot_Copy()      { ExampleCatalogue_Copy() }
func ExampleSnapshot_Only()      { ExampleCatalogue_Copy() }
func ExampleSnapshot_At()        { ExampleCatalogue_Copy() }
func ExampleSnapshot_CheckIn()   { ExampleCatalogue_Copy() }
func ExampleSnapshot_Away()      { ExampleCatalogue_Copy() }
func ExampleCopying_Snapshot()   { ExampleCatalogue_Copy() }
func ExampleSchema_Copies()      { ExampleCatalogue_Copy() }

// A copy that is given up leaves the snapshot as it was.
func ExampleCopying_Abort() {
	c, remove := three()
	defer remove()
	c.Stores(func(p snapshot.Place, _ []string) (store.Store, error) { return store.OpenDir(p.Folder), nil })
	s, _ := c.Latest(job)
	p, err := c.Copy(s, snapshot.Place{Kind: "dir", Folder: "/nowhere"}, nil)
	fmt.Println(err, p.Abort(true))
	s, _ = c.Latest(job)
	fmt.Println(len(s.Copies()))
	// Output:
	// <nil> <nil>
	// 1
}

// Each place keeps so many.
func ExampleCatalogue_PruneLevels() {
	c, remove := three()
	defer remove()
	done, err := c.PruneLevels(job, func(p snapshot.Place) int {
		if p == snapshot.Beside {
			return 2
		}
		return 0 // all
	})
	fmt.Println(done.Removed, err)
	// Output: [1] <nil>
}
