package engine_test

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Probe tells how long a message is before there is a buffer for it.
func ExampleEngine_Probe() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	a.Send(1, world, 7, nil, []byte("of any length"), engine.Standard, nil)

	st, _ := b.Probe(engine.AnySource, world, engine.AnyTag, nil)
	p := make([]byte, st.Bytes)
	b.Recv(st.Source, world, int32(st.Tag), nil, p, nil)
	fmt.Printf("%d bytes: %s\n", len(p), p)
	// Output: 13 bytes: of any length
}

func ExampleEngine_Iprobe() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	_, found, _ := b.Iprobe(0, world, 7)
	fmt.Println(found)
	a.Send(1, world, 7, nil, []byte("hello"), engine.Standard, nil)
	st, found, _ := b.Iprobe(0, world, 7)
	fmt.Println(found, st.Bytes)
	// Output:
	// false
	// true 5
}

// A message that Mprobe has returned is nobody else's.
func ExampleEngine_Mprobe() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	a.Send(1, world, 7, nil, []byte("hello"), engine.Standard, nil)

	m, st, _ := b.Mprobe(0, world, 7, nil)
	_, found, _ := b.Iprobe(0, world, 7)
	fmt.Println("still there:", found)

	p := make([]byte, st.Bytes)
	r, _ := b.Imrecv(m, nil, p)
	b.Wait(r, nil)
	fmt.Printf("%s\n", p)

	_, err := b.Imrecv(m, nil, p) // a second time
	fmt.Println(errors.Is(err, engine.ErrRequest))
	// Output:
	// still there: false
	// hello
	// true
}

func ExampleEngine_Imrecv() { ExampleEngine_Mprobe() }

func ExampleEngine_Improbe() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	_, _, found, _ := b.Improbe(0, world, 7)
	fmt.Println(found)

	a.Send(1, world, 7, nil, []byte("hello"), engine.Standard, nil)
	m, st, found, _ := b.Improbe(0, world, 7)
	fmt.Println(found, st.Bytes)
	p := make([]byte, st.Bytes)
	r, _ := b.Imrecv(m, nil, p)
	b.Wait(r, nil)
	fmt.Printf("%s\n", p)
	// Output:
	// false
	// true 5
	// hello
}
