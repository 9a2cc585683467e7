package self_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// write writes an image of the registry and of one message into dir.
func write(dir string, r *self.Registry) string {
	c, err := r.Copy()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Release()
	path := filepath.Join(dir, "rank-0.img")
	msgs := []engine.Saved{{Ctx: 1, Source: 2, Tag: 7, Data: []byte("unreceived")}}
	if _, err := c.Write(image.Path(path), image.LocalMeta(), msgs, image.Options{Codec: image.Snappy}, nil, nil); err != nil {
		log.Fatal(err)
	}
	return path
}

// Variables go out under their names and come back under them, in a process
// that may be another build of the program.
func Example() {
	dir, _ := os.MkdirTemp("", "self")
	defer os.RemoveAll(dir)

	step, grid := 100, []float64{1, 2, 3}
	var r self.Registry
	defer r.Close()
	for name, ptr := range map[string]any{"step": &step, "grid": &grid} {
		if err := r.Register(name, ptr); err != nil {
			log.Fatal(err)
		}
	}
	path := write(dir, &r)

	s, err := self.Open(image.Path(path))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	var again int
	var cells []float64
	fmt.Println(s.Fill("step", &again), s.Fill("grid", &cells))
	fmt.Println(again, cells)
	// Output:
	// <nil> <nil>
	// 100 [1 2 3]
}

func ExampleRegistry_Register() {
	var r self.Registry
	var step int
	var head struct{ Next *int }
	fmt.Println(r.Register("step", &step))
	fmt.Println(errors.Is(r.Register("step", &step), self.ErrDuplicate))
	fmt.Println(errors.Is(r.Register("head", &head), self.ErrKind)) // a pointer means nothing elsewhere
	fmt.Println(r.Names())
	// Output:
	// <nil>
	// true
	// true
	// [step]
}

func ExampleRegistry_Names() { ExampleRegistry_Register() }

// The program may go on as soon as Copy has returned: what is written later is
// the state of that moment.
func ExampleRegistry_Copy() {
	dir, _ := os.MkdirTemp("", "self")
	defer os.RemoveAll(dir)
	grid := []float64{1, 2, 3}
	var r self.Registry
	defer r.Close()
	r.Register("grid", &grid)
	if err := r.Prepare(); err != nil { // gets the memory beforehand
		log.Fatal(err)
	}
	c, err := r.Copy()
	if err != nil {
		log.Fatal(err)
	}
	grid[0] = 99
	path := filepath.Join(dir, "rank-0.img")
	_, err = c.Write(image.Path(path), image.LocalMeta(), nil, image.Options{}, nil, nil)
	fmt.Println(c.Bytes() >= 24, err)
	c.Release()

	s, _ := self.Open(image.Path(path))
	defer s.Close()
	s.Fill("grid", &grid)
	fmt.Println(grid)
	// Output:
	// true <nil>
	// [1 2 3]
}

func ExampleRegistry_Prepare() { ExampleRegistry_Copy() }
func ExampleRegistry_Close()   { ExampleRegistry_Copy() }
func ExampleCopy_Bytes()       { ExampleRegistry_Copy() }
func ExampleCopy_Release()     { ExampleRegistry_Copy() }

// An image that is given up leaves nothing behind.
func ExampleCopy_Write() {
	dir, _ := os.MkdirTemp("", "self")
	defer os.RemoveAll(dir)
	grid := make([]float64, 1000)
	var r self.Registry
	defer r.Close()
	r.Register("grid", &grid)
	c, err := r.Copy()
	if err != nil {
		log.Fatal(err)
	}
	defer c.Release()

	cancel := make(chan struct{})
	close(cancel)
	_, err = c.Write(image.Path(filepath.Join(dir, "rank-0.img")), image.LocalMeta(), nil, image.Options{}, nil, cancel)
	left, _ := os.ReadDir(dir)
	fmt.Println(errors.Is(err, image.ErrCanceled), len(left))

	var done uint64
	progress := func(n uint64) { done = n }
	_, err = c.Write(image.Path(filepath.Join(dir, "rank-0.img")), image.LocalMeta(), nil, image.Options{}, progress, nil)
	fmt.Println(err, done >= 8000)
	// Output:
	// true 0
	// <nil> true
}

func ExampleOpen() {
	dir, _ := os.MkdirTemp("", "self")
	defer os.RemoveAll(dir)
	step, name := 100, "heat"
	var r self.Registry
	defer r.Close()
	r.Register("step", &step)
	r.Register("name", &name)
	path := write(dir, &r)

	s, err := self.Open(image.Path(path))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	fmt.Println(s.Names(), s.Meta().Backend)
	s.Fill("step", &step)
	fmt.Println("nobody has asked for:", s.Unclaimed())
	for _, m := range s.Messages() {
		fmt.Printf("from %d, tag %d: %s\n", m.Source, m.Tag, m.Data)
	}
	// Output:
	// [step name] self
	// nobody has asked for: [name]
	// from 2, tag 7: unreceived
}

func ExampleRestore_Names()     { ExampleOpen() }
func ExampleRestore_Meta()      { ExampleOpen() }
func ExampleRestore_Unclaimed() { ExampleOpen() }
func ExampleRestore_Messages()  { ExampleOpen() }
func ExampleRestore_Close()     { ExampleOpen() }

// A changed program is told, not given something else.
func ExampleRestore_Fill() {
	dir, _ := os.MkdirTemp("", "self")
	defer os.RemoveAll(dir)
	step := 100
	var r self.Registry
	defer r.Close()
	r.Register("step", &step)
	s, err := self.Open(image.Path(write(dir, &r)))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	var long int64 // the same thing on every platform
	fmt.Println(s.Fill("step", &long), long)
	var real float64
	fmt.Println(errors.Is(s.Fill("step", &real), self.ErrType))
	fmt.Println(errors.Is(s.Fill("stage", &long), self.ErrMissing))
	// Output:
	// <nil> 100
	// true
	// true
}

func ExampleTypeString() {
	type cell struct {
		A int
		B []string
	}
	type tree struct{ Kids []tree }
	for _, v := range []any{0, []float64{}, map[string]cell{}, time.Time{}, tree{}} {
		s, err := self.TypeString(reflect.TypeOf(v))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s)
	}
	_, err := self.TypeString(reflect.TypeFor[*int]())
	fmt.Println(errors.Is(err, self.ErrKind))
	// Output:
	// int64
	// []float64
	// map[string]struct{A int64; B []string}
	// binary(time.Time)
	// struct{Kids []^2}
	// true
}
