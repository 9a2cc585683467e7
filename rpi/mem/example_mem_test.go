package mem_test

import (
	"fmt"
	"log"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// Two ranks in one process, each an engine over its end of the fabric.
func ExampleNewFabric() {
	fabric := mem.NewFabric(2)
	var engines [2]*engine.Engine
	var addrs [2][]byte
	for rank := range engines {
		m := fabric.Module(rank)
		engines[rank] = engine.New(engine.Config{
			Rank: rank, Size: 2, Modules: []rpi.Module{m}, Waiter: fabric.Waiter(rank),
		})
		var err error
		if addrs[rank], err = m.Start(rpi.Env{Rank: rank, Size: 2, Sink: engines[rank].Sink(0)}); err != nil {
			log.Fatal(err)
		}
	}
	for rank, e := range engines {
		if err := fabric.Module(rank).Peers(addrs[:]); err != nil {
			log.Fatal(err)
		}
		e.Start()
		defer e.Close()
	}

	go engines[0].Send(1, 1, 0, nil, []byte("hello"), engine.Standard, nil)
	p := make([]byte, 5)
	st, err := engines[1].Recv(0, 1, 0, nil, p, nil)
	fmt.Printf("%s from %d %v\n", p, st.Source, err)
	// Output: hello from 0 <nil>
}

func ExampleFabric_Module() { ExampleNewFabric() }
func ExampleFabric_Waiter() { ExampleNewFabric() }

// printer stands where an engine would: it prints what the module tells.
type printer struct{ payload []byte }

func (p *printer) Begin(_ int, h *rpi.Header) ([]byte, error) {
	p.payload = make([]byte, h.PayloadLen())
	return p.payload, nil
}
func (p *printer) End(peer int) { fmt.Printf("from %d: %.5s\n", peer, p.payload) }
func (p *printer) Deliver(peer int, h *rpi.Header, payload []byte) error {
	dst, err := p.Begin(peer, h)
	copy(dst, payload)
	p.End(peer)
	return err
}
func (p *printer) Sent(int, rpi.Ref)      {}
func (p *printer) Writable(peer int)      { fmt.Println("room at", peer) }
func (p *printer) Down(peer int, _ error) { fmt.Println(peer, "is gone") }

// started returns the two ends of a fabric with a printer on each.
func started() (a, b rpi.Module) {
	fabric := mem.NewFabric(2)
	a, b = fabric.Module(0), fabric.Module(1)
	addrs := make([][]byte, 2)
	for rank, m := range []rpi.Module{a, b} {
		addrs[rank], _ = m.Start(rpi.Env{Rank: rank, Size: 2, Sink: new(printer)})
	}
	a.Peers(addrs)
	b.Peers(addrs)
	return a, b
}

// The module as its engine sees it: frames go in at one end and come out of
// Poll at the other.
func ExampleModule_Send() {
	a, b := started()
	defer a.Close()
	defer b.Close()
	h := rpi.Header{Kind: rpi.Eager, Len: 5}
	fmt.Println(a.Reaches(1), a.Send(1, &h, []byte("hello"), 0, false) == rpi.Taken)
	fmt.Println(b.Arm()) // something is there: no time to sleep
	fmt.Println(b.Poll(), b.Poll())
	fmt.Println(b.Arm())
	// Output:
	// true true
	// false
	// from 0: hello
	// true false
	// true
}

func ExampleModule_Start()   { ExampleModule_Send() }
func ExampleModule_Peers()   { ExampleModule_Send() }
func ExampleModule_Reaches() { ExampleModule_Send() }
func ExampleModule_Poll()    { ExampleModule_Send() }
func ExampleModule_Arm()     { ExampleModule_Send() }

// A sender that finds no room is told when there is some again.
func ExampleModule_Send_full() {
	a, b := started()
	defer a.Close()
	h := rpi.Header{Kind: rpi.Data, Len: rpi.MaxFrame}
	p := make([]byte, rpi.MaxFrame)
	copy(p, "block")
	n := 0
	for a.Send(1, &h, p, 0, false) == rpi.Taken {
		n++
	}
	fmt.Println("full:", n > 0)
	b.Close() // the frames are lost with their receiver
	a.Poll()
	// Output:
	// full: true
	// 1 is gone
}

func ExampleModule_Close() { ExampleModule_Send_full() }

func ExampleModule_Name() {
	m := mem.NewFabric(1).Module(0)
	fmt.Println(m.Name(), "sends up to", m.EagerLimit(), "bytes at once")
	// Output: mem sends up to 16384 bytes at once
}

func ExampleModule_EagerLimit() { ExampleModule_Name() }

// An accepted frame is in the receiver's inbox: a gate may close at any time.
func ExampleModule_Quiesce() {
	a, b := started()
	defer a.Close()
	defer b.Close()
	a.Send(1, &rpi.Header{Kind: rpi.Eager, Len: 5}, []byte("hello"), 0, true)
	a.Quiesce()
	fmt.Println(a.Flush(), a.Quiet())
	b.Poll()
	a.Continue()
	// Output:
	// true true
	// from 0: hello
}

func ExampleModule_Flush()    { ExampleModule_Quiesce() }
func ExampleModule_Quiet()    { ExampleModule_Quiesce() }
func ExampleModule_Continue() { ExampleModule_Quiesce() }

func ExampleModule_Restart() {
	a, b := started()
	defer a.Close()
	defer b.Close()
	a.Send(1, &rpi.Header{Kind: rpi.Eager, Len: 5}, []byte("hello"), 0, false)
	b.Restart(rpi.Env{Rank: 1, Size: 2, Sink: new(printer)})
	fmt.Println(b.Arm()) // the inbox is empty
	// Output: true
}
