package engine_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

func ExampleEngine_Send() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	a.Send(1, world, 7, nil, []byte("hello"), engine.Standard, nil) // short: does not wait for the receiver

	p := make([]byte, 16)
	st, err := b.Recv(engine.AnySource, world, engine.AnyTag, nil, p, nil)
	fmt.Printf("%s from %d, tag %d, %v\n", p[:st.Bytes], st.Source, st.Tag, err)
	// Output: hello from 0, tag 7, <nil>
}

func ExampleEngine_Recv() { ExampleEngine_Send() }

// A long message is announced and waits at its sender until a receive is there.
func ExampleEngine_Send_long() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	sent := make(chan error)
	go func() { sent <- a.Send(1, world, 0, nil, make([]byte, 1<<20), engine.Standard, nil) }()

	st, err := b.Recv(0, world, 0, nil, make([]byte, 1<<20), nil)
	fmt.Println(st.Bytes, err, <-sent)
	// Output: 1048576 <nil> <nil>
}

func ExampleEngine_Recv_errors() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	ints := &engine.Type{ID: 5, Size: 4, Name: "int32"}
	floats := &engine.Type{ID: 13, Size: 4, Name: "float32"}

	a.Send(1, world, 0, ints, make([]byte, 8), engine.Standard, nil)
	_, err := b.Recv(0, world, 0, ints, make([]byte, 4), nil)
	fmt.Println(errors.Is(err, engine.ErrTruncate))

	a.Send(1, world, 0, ints, make([]byte, 8), engine.Standard, nil)
	_, err = b.Recv(0, world, 0, floats, make([]byte, 8), nil)
	fmt.Println(errors.Is(err, engine.ErrType))

	_, err = b.Recv(2, world, 0, ints, nil, nil)
	fmt.Println(errors.Is(err, engine.ErrRank))
	// Output:
	// true
	// true
	// true
}

// A collective that one rank gives up cannot go on at the others either.
func ExampleEngine_Poison() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	a.Poison(world, []int{0, 1}, engine.ErrDeadline)

	_, err := b.Recv(0, world, 0, nil, nil, nil)
	fmt.Println(errors.Is(err, engine.ErrPoisoned), errors.Is(err, engine.ErrGaveUp))
	err = b.Send(0, world+1, 0, nil, nil, engine.Standard, nil)
	fmt.Println("another context:", err)
	// Output:
	// true true
	// another context: <nil>
}

func ExampleEngine_FreeContext() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	a.Send(1, world, 0, nil, []byte("late"), engine.Standard, nil)
	_, found, _ := b.Iprobe(0, world, 0)
	fmt.Println(found)
	b.FreeContext(world) // nobody will receive it
	_, found, _ = b.Iprobe(0, world, 0)
	fmt.Println(found)
	// Output:
	// true
	// false
}

// A view lets a context end waits.
func ExampleNewView() {
	a, _, closeBoth := twoRanks()
	defer closeBoth()
	ctx, cancel := context.WithCancelCause(context.Background())
	v := engine.NewView(ctx, a)
	defer v.Stop()
	fmt.Println(v.Err())

	go cancel(errors.New("the user has pressed ^C"))
	_, err := a.Recv(1, world, 0, nil, nil, v)
	fmt.Println(errors.Is(err, engine.ErrDeadline))
	fmt.Println(v.Err())
	// Output:
	// <nil>
	// true
	// gave up waiting: the user has pressed ^C
}

func ExampleView_Err() { ExampleNewView() }

// Once stopped the view is no longer told of the end of its context.
func ExampleView_Stop() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	ctx, cancel := context.WithCancel(context.Background())
	v := engine.NewView(ctx, a)
	v.Stop()
	cancel()
	b.Send(0, world, 0, nil, nil, engine.Standard, nil)
	_, err := a.Recv(1, world, 0, nil, nil, v)
	fmt.Println(err, v.Err())
	// Output: <nil> <nil>
}

func ExampleView_Close() { ExampleView_Stop() }
