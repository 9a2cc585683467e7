//go:build !gorun_nocr

package engine_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// A whole cut: both gates closed, everything received that was sent, what nobody
// has asked for yet saved, and on.
func ExampleEngine_CloseGate() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	a.Send(1, world, 7, nil, []byte("in flight"), engine.Standard, nil)

	both := []*engine.Engine{a, b}
	for _, e := range both {
		e.CloseGate() // nobody is inside from here on
		e.Quiesce()
	}
	for !a.Quiet() {
		a.Step()
	}
	fmt.Println(b.GateClosed(), "sent", a.Sent()[1], "received", b.Received()[0])
	for b.Received()[0] < a.Sent()[1] {
		b.Step()
	}
	saved, err := b.Saved()
	fmt.Printf("received %d, saved %d: %s from %d, tag %d, %v\n",
		b.Received()[0], len(saved), saved[0].Data, saved[0].Source, saved[0].Tag, err)
	for _, e := range both {
		e.OpenGate()
	}

	p := make([]byte, 9) // the program knows nothing of all that
	b.Recv(0, world, 7, nil, p, nil)
	fmt.Printf("%v %s\n", b.GateClosed(), p)
	// Output:
	// true sent 57 received 0
	// received 57, saved 1: in flight from 0, tag 7, <nil>
	// false in flight
}

func ExampleEngine_OpenGate()   { ExampleEngine_CloseGate() }
func ExampleEngine_GateClosed() { ExampleEngine_CloseGate() }
func ExampleEngine_Quiesce()    { ExampleEngine_CloseGate() }
func ExampleEngine_Quiet()      { ExampleEngine_CloseGate() }
func ExampleEngine_Step()       { ExampleEngine_CloseGate() }
func ExampleEngine_Sent()       { ExampleEngine_CloseGate() }
func ExampleEngine_Received()   { ExampleEngine_CloseGate() }

// The closer of a gate makes progress while bytes are missing.
func ExampleEngine_WaitStep() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	b.CloseGate()
	b.Quiesce()
	go a.Send(1, world, 7, nil, []byte("late"), engine.Standard, nil)
	for b.Received()[0] < rpi.HeaderSize+4 {
		if !b.Step() {
			b.WaitStep(-1)
		}
	}
	b.OpenGate()
	_, found, _ := b.Iprobe(0, world, 7)
	fmt.Println(found)
	// Output: true
}

// A message whose sender waits for something is not ours to save.
func ExampleEngine_Saved() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	r, _ := a.Isend(1, world, 7, nil, []byte("hello"), engine.Synchronous)

	b.CloseGate()
	b.Step()
	_, err := b.Saved()
	fmt.Println(err)
	b.OpenGate()

	b.Recv(0, world, 7, nil, make([]byte, 5), nil)
	a.Wait(r, nil)
	// Output: rank 0 waits in a send of 5 bytes (tag 7, ctx 0x1) that was not received
}

// Messages of an image come before all that arrive afterwards.
func ExampleEngine_Inject() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	a.Send(1, world, 7, nil, []byte("new"), engine.Standard, nil)
	b.Progress()
	b.Inject([]engine.Saved{{Ctx: world, Source: 0, Tag: 7, Data: []byte("old")}})

	p := make([]byte, 3)
	for range 2 {
		b.Recv(0, world, 7, nil, p, nil)
		fmt.Printf("%s\n", p)
	}
	// Output:
	// old
	// new
}

func ExampleEngine_Pending() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	r1, _ := a.Irecv(engine.AnySource, world, 3, nil, make([]byte, 8))
	r2, _ := a.Isend(1, world, 4, nil, []byte("hello"), engine.Standard)
	all := a.Pending()
	slices.Sort(all)
	for _, what := range all {
		fmt.Println(what)
	}
	b.Send(0, world, 3, nil, nil, engine.Standard, nil)
	a.Wait(r1, nil)
	a.Wait(r2, nil)
	fmt.Println(len(a.Pending()))
	// Output:
	// Irecv(source any, tag 3, ctx 0x1, 8 bytes)
	// Isend(destination 1, tag 4, ctx 0x1, 5 bytes) complete, not waited for
	// 0
}

func ExampleEngine_Blocked() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	fmt.Printf("%q\n", a.Blocked())
	done := make(chan struct{})
	go func() {
		a.Recv(1, world, 7, nil, nil, nil)
		close(done)
	}()
	for a.Blocked() == "" {
		runtime.Gosched()
	}
	what, _, _ := strings.Cut(a.Blocked(), " for ") // and for how long
	fmt.Println(what)
	b.Send(0, world, 7, nil, nil, engine.Standard, nil)
	<-done
	// Output:
	// ""
	// Recv(source 1, tag 7, ctx 0x1, 0 bytes)
}

// The closer of the gate asks Closer where callers ask the engine.
func ExampleEngine_Closer() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	r, _ := a.Irecv(1, world, 7, nil, nil)
	a.CloseGate()
	fmt.Println(a.Closer().Pending(), a.Closer().Blocked() == "")
	a.OpenGate()
	b.Send(0, world, 7, nil, nil, engine.Standard, nil)
	a.Wait(r, nil)
	// Output: [Irecv(source 1, tag 7, ctx 0x1, 0 bytes)] true
}

func ExampleCloser_Pending() { ExampleEngine_Closer() }
func ExampleCloser_Blocked() { ExampleEngine_Closer() }

// A process that came back from its image has new channels; its ranks go on.
func ExampleEngine_Restarted() {
	fabric := mem.NewFabric(2)
	var engines [2]*engine.Engine
	addrs := make([][]byte, 2)
	env := func(rank int) rpi.Env { return rpi.Env{Rank: rank, Size: 2, Sink: engines[rank].Sink(0)} }
	for rank := range engines {
		m := fabric.Module(rank)
		engines[rank] = engine.New(engine.Config{Rank: rank, Size: 2, Modules: []rpi.Module{m}, Manual: true})
		addrs[rank], _ = m.Start(env(rank))
	}
	for rank, e := range engines {
		fabric.Module(rank).Peers(addrs)
		e.Start()
		defer e.Close()
		e.CloseGate() // the cut; here the image would be made
	}

	for rank := range engines {
		addrs[rank], _ = fabric.Module(rank).Restart(env(rank))
	}
	for rank, e := range engines {
		fabric.Module(rank).Peers(addrs)
		if err := e.Restarted(nil, nil); err != nil { // nil: over the same modules
			fmt.Println(err)
		}
		e.SetLocal(1) // each rank has come back on a host of its own
		e.OpenGate()
	}
	engines[0].Send(1, world, 0, nil, []byte("again"), engine.Standard, nil)
	p := make([]byte, 5)
	engines[1].Recv(0, world, 0, nil, p, nil)
	fmt.Printf("%s\n", p)
	// Output: again
}

func ExampleEngine_SetLocal() { ExampleEngine_Restarted() }
