package rpi_test

import (
	"fmt"

	"github.com/gorun-mpi/gorun/rpi"
)

var pigeon = []rpi.Parameter{
	{Name: "pigeon.flock", Default: "3", Doc: "birds that fly at once"},
	{Name: "pigeon.rest", Default: "10s", Doc: "between two flights"},
	{Name: "pigeon.home", Default: "loft", Doc: "where they fly to"},
}

func ExampleNewSettings() {
	s := rpi.NewSettings("pigeon", pigeon, map[string]string{"pigeon.flok": "4", "tcp.eager": "1"})
	fmt.Println(s.Err())
	// Output: pigeon: unknown parameter pigeon.flok
}

func ExampleSettings_Number() {
	s := rpi.NewSettings("pigeon", pigeon, map[string]string{"pigeon.flock": "5"})
	fmt.Println(s.Number("pigeon.flock", 1, 9), s.Err())
	// Output: 5 <nil>
}

func ExampleSettings_Duration() {
	s := rpi.NewSettings("pigeon", pigeon, nil)
	fmt.Println(s.Duration("pigeon.rest"), s.Err())
	// Output: 10s <nil>
}

func ExampleSettings_Text() {
	s := rpi.NewSettings("pigeon", pigeon, nil)
	fmt.Println(s.Text("pigeon.home"))
	// Output: loft
}

func ExampleSettings_Err() {
	s := rpi.NewSettings("pigeon", pigeon, map[string]string{"pigeon.flock": "many"})
	s.Number("pigeon.flock", 1, 9)
	fmt.Println(s.Err())
	// Output: pigeon: parameter pigeon.flock="many": want a number from 1 to 9
}
