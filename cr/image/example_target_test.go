package image_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
)

// An image goes to a file and to a piece of a store alike.
func ExampleTarget() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	st := store.OpenDir(dir)
	if err := st.Begin(context.Background(), "job/1"); err != nil {
		fmt.Println(err)
		return
	}
	for _, to := range []image.Target{
		image.Path(filepath.Join(dir, "image")),
		image.NewPiece{Context: context.Background(), Store: st, Set: "job/1", Name: "rank-00000.img"},
	} {
		w, err := to.Create(image.LocalMeta(), image.Options{})
		if err == nil {
			err = w.Section("x", "array", "", []byte("state"))
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		sum, err := w.Commit()
		fmt.Println(filepath.Base(to.String()), sum.Raw, err)
	}
	// Output:
	// image 5 <nil>
	// rank-00000.img 5 <nil>
}

func ExamplePath_Create()     { ExampleTarget() }
func ExampleNewPiece_Create() { ExampleTarget() }
func ExampleNewPiece_String() { ExampleTarget() }
