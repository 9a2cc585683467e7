package snapshot_test

import (
	"fmt"
	"log"
	"os"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// A snapshot gets the number that it has in another catalogue. What was written is looked at before anybody can see it.
func ExampleCatalogue_Readmit() {
	from, _ := os.MkdirTemp("", "snapshot")
	to, _ := os.MkdirTemp("", "snapshot")
	defer os.RemoveAll(from)
	defer os.RemoveAll(to)
	c, err := snapshot.Open(from)
	if err != nil {
		log.Fatal(err)
	}
	take(c).Release()
	take(c).Release()
	s, err := c.Latest(job)
	if err != nil {
		log.Fatal(err)
	}
	d, err := snapshot.Open(to)
	if err != nil {
		log.Fatal(err)
	}
	p, err := d.Readmit(job, s.Schema.Sequence, snapshot.Beside)
	if err != nil {
		log.Fatal(err)
	}
	image, err := os.ReadFile(s.ImagePath(0))
	if err == nil {
		err = os.WriteFile(p.ImagePath(0), image, 0o600)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(snapshot.CheckChain([]*snapshot.Schema{s.Schema}), p.Verify(*s.Schema.Detached()))
	_, hold, err := p.Commit(*s.Schema.Detached())
	if err != nil {
		log.Fatal(err)
	}
	hold.Release()
	_, err = d.Readmit(job, 2, snapshot.Beside)
	fmt.Println(err != nil)
	all, err := d.List(job)
	fmt.Println(len(all), all[0].Schema.Sequence, err)
	// Output:
	// <nil> <nil>
	// true
	// 1 2 <nil>
}

func ExampleCheckChain() { ExampleCatalogue_Readmit() }

func ExamplePending_Verify() { ExampleCatalogue_Readmit() }

func ExampleSchema_Detached() { ExampleCatalogue_Readmit() }
