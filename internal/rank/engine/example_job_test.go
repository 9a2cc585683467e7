package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// world is the context, the number of the communicator, of the examples.
const world = 1

// twoRanks makes a job of two ranks in this process. No goroutine works in the
// background: the ranks make progress only in the calls that they make.
func twoRanks() (a, b *engine.Engine, closeBoth func()) {
	var (
		fabric  = mem.NewFabric(2)
		engines [2]*engine.Engine
		addrs   [2][]byte
		err     error
	)
	for rank := range engines {
		m := fabric.Module(rank)
		e := engine.New(engine.Config{Rank: rank, Size: 2, Modules: []rpi.Module{m}, Manual: true})
		if addrs[rank], err = m.Start(rpi.Env{Rank: rank, Size: 2, Sink: e.Sink(0)}); err != nil {
			log.Fatal(err)
		}
		engines[rank] = e
	}
	for rank, e := range engines {
		if err := fabric.Module(rank).Peers(addrs[:]); err != nil {
			log.Fatal(err)
		}
		e.Start()
	}
	a, b = engines[0], engines[1]
	return a, b, func() { a.Close(); b.Close() }
}

// An engine is made around its modules, then each module is started with the
// engine's Sink and told where the others are.
func ExampleNew() {
	fabric := mem.NewFabric(2)
	var engines [2]*engine.Engine
	var addrs [2][]byte
	for rank := range engines {
		m := fabric.Module(rank)
		engines[rank] = engine.New(engine.Config{Rank: rank, Size: 2, Modules: []rpi.Module{m}})
		addr, err := m.Start(rpi.Env{Rank: rank, Size: 2, Sink: engines[rank].Sink(0)})
		if err != nil {
			log.Fatal(err)
		}
		addrs[rank] = addr
	}
	for rank, e := range engines { // a launcher would carry the addresses around
		if err := fabric.Module(rank).Peers(addrs[:]); err != nil {
			log.Fatal(err)
		}
		e.Start()
		defer e.Close()
		fmt.Println("rank", e.Rank(), "of", e.Size())
	}
	// Output:
	// rank 0 of 2
	// rank 1 of 2
}

func ExampleEngine_Sink()  { ExampleNew() }
func ExampleEngine_Start() { ExampleNew() }
func ExampleEngine_Rank()  { ExampleNew() }
func ExampleEngine_Size()  { ExampleNew() }

func ExampleEngine_Close() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	b.Close() // the peer sees it go
	_, err := a.Recv(1, world, 0, nil, nil, nil)
	fmt.Println("a:", errors.Is(err, engine.ErrPeerFailed))
	_, err = b.Recv(0, world, 0, nil, nil, nil)
	fmt.Println("b:", errors.Is(err, engine.ErrAborted))
	// Output:
	// a: true
	// b: true
}

func ExampleEngine_Abort() {
	a, _, closeBoth := twoRanks()
	defer closeBoth()
	a.Abort(errors.New("rank 1 was killed"))
	_, err := a.Recv(1, world, 0, nil, nil, nil) // would have waited for ever
	fmt.Println(err, errors.Is(err, engine.ErrAborted))
	// Output: job aborted: rank 1 was killed true
}

// Programs need not call Progress; an engine without background goroutine
// (Config.Manual) may be driven with it.
func ExampleEngine_Progress() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	fmt.Println(b.Progress())
	a.Send(1, world, 0, nil, []byte("hi"), engine.Standard, nil)
	fmt.Println(b.Progress())
	// Output:
	// false
	// true
}

func ExampleRegister() {
	rpi.Register("example", func() rpi.Module { return mem.NewFabric(1).Module(0) })
	make, ok := rpi.Lookup("example") // as for -rpi example
	fmt.Println(ok, make().Name())
	_, ok = rpi.Lookup("carrier-pigeon")
	fmt.Println(ok)
	for _, name := range rpi.Names() {
		if name == "example" {
			fmt.Println(name, "is listed")
		}
	}
	// Output:
	// true mem
	// false
	// example is listed
}

func ExampleLookup() { ExampleRegister() }
func ExampleNames()  { ExampleRegister() }

func ExampleHeader() {
	h := rpi.Header{Kind: rpi.Eager, Tag: 7, Ctx: world, Len: 5}
	wire := make([]byte, rpi.HeaderSize)
	h.Encode(wire)
	wire = append(wire, "hello"...)

	var got rpi.Header
	fmt.Println(got.Decode(wire), got == h)
	fmt.Printf("%s counts %d bytes\n", wire[rpi.HeaderSize:][:got.PayloadLen()], got.Counted())

	announce := rpi.Header{Kind: rpi.RTS, Len: 1 << 30} // the length of the message, not of the frame
	fmt.Println(announce.PayloadLen(), announce.Counted())

	fmt.Println(got.Decode(bytes.Repeat([]byte{0xff}, rpi.HeaderSize)), got.Valid()) // no such kind
	// Output:
	// true true
	// hello counts 53 bytes
	// 0 48
	// false false
}

func ExampleHeader_Encode()     { ExampleHeader() }
func ExampleHeader_Decode()     { ExampleHeader() }
func ExampleHeader_Valid()      { ExampleHeader() }
func ExampleHeader_PayloadLen() { ExampleHeader() }
func ExampleHeader_Counted()    { ExampleHeader() }

// A Wake is not lost if nobody waits yet.
func ExampleChanWaiter() {
	w := rpi.NewChanWaiter()
	w.Wake()
	w.Wait(-1) // no limit, but somebody has called Wake
	w.Wait(1)  // a nanosecond: nobody has since
	w.Yield()
	fmt.Println("awake")
	// Output: awake
}

func ExampleNewChanWaiter()    { ExampleChanWaiter() }
func ExampleChanWaiter_Wait()  { ExampleChanWaiter() }
func ExampleChanWaiter_Wake()  { ExampleChanWaiter() }
func ExampleChanWaiter_Yield() { ExampleChanWaiter() }
