package self_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
)

// column is a Distributed variable with one element in each row.
type column struct {
	rows, first int
	own         []float64
}

func (c *column) Part() self.Part {
	return self.Part{Rows: c.rows, Width: 1, First: c.first, Own: &c.own}
}

// folder is a Library: the images of a snapshot in a folder, one copy of each.
type folder string

func (f folder) Image(rank, copy int) image.Source {
	return image.Path(filepath.Join(string(f), fmt.Sprint("rank-", rank)))
}

// Two ranks have five rows. Of three others the second reads what the first has of its rows, and what the second has.
func ExampleOpenResized() {
	dir, _ := os.MkdirTemp("", "self")
	defer os.RemoveAll(dir)
	for rank, own := range [][]float64{{0, 1, 2}, {3, 4}} {
		step := 7
		var r self.Registry
		r.Register("x", &column{rows: 5, first: 3 * rank, own: own})
		r.Register("step", self.Replicated{Ptr: &step})
		c, err := r.Copy()
		if err != nil {
			log.Fatal(err)
		}
		meta := image.LocalMeta()
		meta.Rank, meta.Size = rank, 2
		if _, err := c.Write(folder(dir).Image(rank, 0).(image.Path), meta, nil, image.Options{}, nil, nil); err != nil {
			log.Fatal(err)
		}
		c.Release()
		r.Close()
	}
	second, err := self.Open(folder(dir).Image(1, 0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(second.Share("x")+";", second.Share("step"))
	second.Close()
	fmt.Println(self.Resizable([]image.Source{folder(dir).Image(0, 0), folder(dir).Image(1, 0)}))

	s, err := self.OpenResized(folder(dir), 2, 1, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	x, step := &column{rows: 5, first: 2, own: make([]float64, 2)}, 0
	fmt.Println(s.Fill("x", x), s.Fill("step", self.Replicated{Ptr: &step}))
	fmt.Println(x.own, step)
	fmt.Println(s.Unclaimed(), len(s.Messages()), s.Meta().Size)
	// Output:
	// rows 3 to 5 of 5 with 1 elements each; the same on all ranks
	// <nil>
	// <nil> <nil>
	// [2 3] 7
	// [] 0 2
}

func ExampleResizable()        { ExampleOpenResized() }
func ExampleRestore_Share()    { ExampleOpenResized() }
func ExampleResized_Fill()     { ExampleOpenResized() }
func ExampleResized_Meta()     { ExampleOpenResized() }
func ExampleResized_Messages() { ExampleOpenResized() }
func ExampleResized_Close()    { ExampleOpenResized() }
