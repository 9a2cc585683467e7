package cr_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// begin makes the process a job of one rank, as mpi.Run does in a program.
var begin = sync.OnceFunc(func() {
	if err := mpi.Init(); err != nil {
		panic(err)
	}
})

// A program that can be checkpointed at any iteration. Started with gorun -cr
// and restarted from a snapshot, it would begin at the saved iteration.
func Example() {
	begin()
	iter, sum := 0, 0
	for name, state := range map[string]any{"example.iter": &iter, "example.sum": &sum} {
		if err := cr.Register(name, state); err != nil {
			fmt.Println(err)
		}
	}
	for ; iter < 10; iter++ {
		if err := cr.Point(); err != nil {
			fmt.Println(err)
		}
		sum += iter
	}
	fmt.Println("sum", sum)
	// Output: sum 45
}

func ExampleRegister() {
	begin()
	field := make([]float64, 1000)
	fmt.Println(cr.Register("field", &field))
	fmt.Println(cr.Register("field", &field) != nil) // a name registers once
	// Output:
	// <nil>
	// true
}

func ExamplePoint() {
	begin()
	for range 3 {
		if err := cr.Point(); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("nobody asked for a checkpoint")
	// Output: nobody asked for a checkpoint
}

func ExampleRestarted() {
	begin()
	if !cr.Restarted() {
		fmt.Println("reading the input: this is the first run")
	}
	// Output: reading the input: this is the first run
}

func ExampleOnCheckpoint() {
	begin()
	flush := func() error { return nil } // what a program writes must be out before the image is made
	fmt.Println(cr.OnCheckpoint(flush))
	// Output: <nil>
}

func ExampleOnContinue() {
	begin()
	fmt.Println(cr.OnContinue(func() error { return nil }))
	// Output: <nil>
}

func ExampleOnRestart() {
	begin()
	reopen := func() error { return nil } // files, connections: what no image holds
	fmt.Println(cr.OnRestart(reopen))
	// Output: <nil>
}

// Where ranks are goroutines each has a registry of its own.
func ExampleOn() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		r := cr.On(c)
		step := 0
		if err := r.Register("step", &step); err != nil {
			return err
		}
		for ; step < 5; step++ {
			if err := r.Point(); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Println("steps", step, "restarted", r.Restarted())
		}
		return nil
	})
	// Output: steps 5 restarted false
}

func ExampleRegistry_Register() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		r := cr.On(c)
		field := make([]float64, 100+c.Rank()) // each rank registers its own
		err := r.Register("field", &field)
		if c.Rank() == 1 {
			fmt.Println(err, r.Register("field", &field))
		}
		return err
	})
	// Output: <nil> rank 1: variable "field": registered twice
}

// All ranks come to a Point equally often.
func ExampleRegistry_Point() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		r, sum := cr.On(c), 0
		if err := r.Register("sum", &sum); err != nil {
			return err
		}
		for step := range 4 {
			if err := r.Point(); err != nil {
				return err
			}
			sum += step
		}
		if c.Rank() == 0 {
			fmt.Println(sum)
		}
		return nil
	})
	// Output: 6
}

func ExampleRegistry_Restarted() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		if !cr.On(c).Restarted() {
			fmt.Println("reading the input: this is the first run")
		}
		return nil
	})
	// Output: reading the input: this is the first run
}

func ExampleRegistry_OnContinue() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		r := cr.On(c)
		r.OnContinue(func() error {
			fmt.Println("an image was made, and this process goes on")
			return nil
		})
		return r.Point()
	})
	fmt.Println("there was no checkpoint")
	// Output: there was no checkpoint
}

func ExampleRegistry_OnRestart() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		r := cr.On(c)
		r.OnRestart(func() error { // files, connections: what no image holds
			fmt.Println("another process goes on from the image")
			return nil
		})
		return r.Point()
	})
	fmt.Println("there was no restart")
	// Output: there was no restart
}

func ExampleRegistry_OnCheckpoint() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		r := cr.On(c)
		r.OnCheckpoint(func() error { return nil })
		r.OnContinue(func() error { return nil })
		r.OnRestart(func() error { return nil })
		return r.Point()
	})
	fmt.Println("nothing was called: there was no checkpoint")
	// Output: nothing was called: there was no checkpoint
}

// A file is replaced in a section in which no checkpoint falls: after a restart it would be replaced again, or
// not at all.
func ExampleHold() {
	begin()
	replace := func() error {
		if err := cr.Hold(); err != nil {
			return err
		}
		defer cr.Release()
		fmt.Println("the file is replaced")
		return nil
	}
	fmt.Println(replace())
	// Output:
	// the file is replaced
	// <nil>
}

func ExampleRelease() {
	begin()
	// Sections nest.
	fmt.Println(cr.Hold(), cr.Hold())
	fmt.Println(cr.Release(), cr.Release())
	fmt.Println(errors.Is(cr.Release(), cr.ErrNotHeld))
	// Output:
	// <nil> <nil>
	// <nil> <nil>
	// true
}

// In tests whose ranks are goroutines, each has its Registry.
func ExampleRegistry_Hold() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		r := cr.On(c)
		if err := r.Hold(); err != nil {
			return err
		}
		return r.Release()
	})
	fmt.Println("held and released")
	// Output: held and released
}

func ExampleRegistry_Release() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		err := cr.On(c).Release()
		if c.Rank() == 0 {
			fmt.Println(errors.Is(err, cr.ErrNotHeld)) // there was no Hold
		}
		return nil
	})
	// Output: true
}

// The lines that were written after a snapshot are taken back when the program goes on from it.
func ExampleFile() {
	begin()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	log, err := cr.File(filepath.Join(dir, "residuals"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	fmt.Fprintln(log, "step residual") // a restart does not write it twice
	_, err = cr.File(log.Name(), os.O_WRONLY, 0)
	fmt.Println(errors.Is(err, cr.ErrFile)) // a file is opened once
	// Output: true
}

// Each rank writes a file of its own.
func ExampleRegistry_File() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	mpitest.Example(2, func(c *mpi.Comm) error {
		f, err := cr.On(c).File(filepath.Join(dir, fmt.Sprint("rank", c.Rank())), os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		return f.Close()
	})
	files, err := filepath.Glob(filepath.Join(dir, "rank*"))
	fmt.Println(len(files), err)
	// Output: 2 <nil>
}

// A table follows from a registered variable.
func ExampleRebuild() {
	begin()
	n := 5
	if err := cr.Register("rebuild.n", &n); err != nil {
		fmt.Println(err)
	}
	var squares []int
	err := cr.Rebuild(func() error {
		squares = make([]int, n)
		for i := range squares {
			squares[i] = i * i
		}
		return nil
	})
	fmt.Println(squares, err)
	// Output: [0 1 4 9 16] <nil>
}

func ExampleRegistry_Rebuild() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		return cr.On(c).Rebuild(func() error {
			fmt.Println("runs now, and again after a restart")
			return nil
		})
	})
	// Output: runs now, and again after a restart
}
