package whole_test

import (
	"fmt"

	"github.com/gorun-mpi/gorun/cr/whole"
)

// camera is a back-end. Embedding the interface stands for the methods that are
// left out here.
type camera struct{ whole.Imager }

func (camera) Name() string { return "camera" }
func (camera) Doc() string  { return "whole processes, on film" }

// A command registers its back-ends. The launcher finds them by the name that -cr
// gives; the first is what auto uses.
func Example() {
	whole.Register(camera{})
	by, err := whole.Find("camera")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(whole.Default(), "images", by.Doc())
	_, err = whole.Find("brush")
	fmt.Println(err)
	// Output:
	// camera images whole processes, on film
	// this gorun has no back-end "brush" that images whole processes, it has: camera
}
