package engine_test

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
)

func ExampleEngine_Isend() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	p := make([]byte, 16)
	recv, _ := b.Irecv(0, world, 7, nil, p) // p is the engine's until Wait
	send, _ := a.Isend(1, world, 7, nil, []byte("hello"), engine.Standard)

	_, err := a.Wait(send, nil)
	fmt.Println("sent:", err)
	st, err := b.Wait(recv, nil)
	fmt.Printf("received: %s %v\n", p[:st.Bytes], err)
	// Output:
	// sent: <nil>
	// received: hello <nil>
}

func ExampleEngine_Irecv() { ExampleEngine_Isend() }
func ExampleEngine_Wait()  { ExampleEngine_Isend() }

// A synchronous send is over when a receive has matched it.
func ExampleEngine_Isend_synchronous() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	r, _ := a.Isend(1, world, 0, nil, []byte("hello"), engine.Synchronous)
	fmt.Println(a.Done(r))
	b.Recv(0, world, 0, nil, make([]byte, 5), nil)
	fmt.Println(a.Done(r))
	a.Wait(r, nil)
	// Output:
	// false
	// true
}

func ExampleEngine_Test() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	p := make([]byte, 4)
	r, _ := a.Irecv(1, world, 0, nil, p)
	_, done, err := a.Test(r)
	fmt.Println(done, err)

	b.Send(0, world, 0, nil, []byte("data"), engine.Standard, nil)
	st, done, err := a.Test(r) // frees the request as well
	fmt.Println(done, err, st.Bytes)

	_, _, err = a.Test(r)
	fmt.Println(errors.Is(err, engine.ErrRequest))
	// Output:
	// false <nil>
	// true <nil> 4
	// true
}

// Done frees nothing: the request is still to be waited for.
func ExampleEngine_Done() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	r, _ := a.Irecv(1, world, 0, nil, nil)
	fmt.Println(a.Done(r))
	b.Send(0, world, 0, nil, nil, engine.Standard, nil)
	fmt.Println(a.Done(r))
	_, err := a.Wait(r, nil)
	fmt.Println(err)
	// Output:
	// false
	// true
	// <nil>
}

func ExampleEngine_WaitAny() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	var rs [3]engine.Request // the last one stays inactive
	for tag := range 2 {
		rs[tag], _ = a.Irecv(1, world, int32(tag), nil, nil)
	}
	b.Send(0, world, 1, nil, nil, engine.Standard, nil)
	b.Send(0, world, 0, nil, nil, engine.Standard, nil)
	ended := 0
	for {
		i, err := a.WaitAny(rs[:], nil)
		if i < 0 {
			fmt.Println(ended, "ended", err)
			break
		}
		a.Wait(rs[i], nil)
		rs[i] = engine.Request{}
		ended++
	}
	// Output: 2 ended <nil>
}

// A row of waits enters the engine once, however many requests there are.
func ExampleEngine_BeginWaits() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	var rs [3]engine.Request
	for tag := range rs {
		rs[tag], _ = a.Irecv(1, world, int32(tag), nil, make([]byte, 8))
		b.Send(0, world, int32(tag), nil, make([]byte, 1+tag), engine.Standard, nil)
	}
	waits := a.BeginWaits()
	for i, r := range rs {
		st, err := waits.Wait(r, nil)
		fmt.Println(i, st.Bytes, err)
	}
	waits.End()
	// Output:
	// 0 1 <nil>
	// 1 2 <nil>
	// 2 3 <nil>
}

// A caller that needs no status ends at once what is over, and waits for the rest.
func ExampleWaits_Done() {
	a, _, closeBoth := twoRanks()
	defer closeBoth()
	var rs [3]engine.Request
	rs[0], _ = a.Isend(1, world, 0, nil, nil, engine.Standard) // short, so it is over
	rs[1], _ = a.Isend(1, world, 0, nil, nil, engine.Standard)
	rs[2], _ = a.Irecv(1, world, 0, nil, nil)
	waits := a.BeginWaits()
	fmt.Println(waits.Done(&rs[0], unsafe.Sizeof(rs[0]), len(rs)))
	fmt.Println(waits.Done(&rs[0], unsafe.Sizeof(rs[0]), 1)) // stale: Wait would say so
	waits.End()
	a.Cancel(rs[2])
	// Output:
	// 2
	// 0
}

// A module that delivers stops where the engine has enough for now.
func ExampleIsEnough() {
	fmt.Println(rpi.IsEnough(rpi.Enough), rpi.IsEnough(nil), rpi.IsEnough(engine.ErrRank))
	// Output: true false false
}

func ExampleRequest_Active() {
	a, _, closeBoth := twoRanks()
	defer closeBoth()
	var r engine.Request
	_, err := a.Wait(r, nil) // an inactive request is over
	fmt.Println(r.Active(), err)
	r, _ = a.Isend(1, world, 0, nil, nil, engine.Standard)
	a.Wait(r, nil)
	fmt.Println(r.Active()) // it was made by an operation
	// Output:
	// false <nil>
	// true
}

func ExampleEngine_Cancel() {
	a, _, closeBoth := twoRanks()
	defer closeBoth()
	r, _ := a.Irecv(1, world, 0, nil, nil)
	fmt.Println(a.Cancel(r))
	_, err := a.Wait(r, nil) // still has to be waited for
	fmt.Println(errors.Is(err, engine.ErrCanceled))
	fmt.Println(errors.Is(a.Cancel(r), engine.ErrRequest))
	// Output:
	// <nil>
	// true
	// true
}
