package engine_test

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Both ranks send two messages and receive two, in one call each.
func ExampleEngine_Together() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	step := func(e *engine.Engine, peer int, one, two string) [2][]byte {
		in := [2][]byte{make([]byte, 3), make([]byte, 3)}
		moves := []engine.Move{
			{Peer: peer, Recv: true, Buf: in[0]}, {Peer: peer, Recv: true, Buf: in[1]},
			{Peer: peer, Buf: []byte(one)}, {Peer: peer, Buf: []byte(two)},
		}
		if failed, err := e.Together(moves, world, 7, engine.AnyTag, nil, nil); err != nil {
			fmt.Println(failed, err)
		}
		return in
	}
	done := make(chan [2][]byte)
	go func() { done <- step(b, 0, "one", "two") }()
	fmt.Printf("%s", step(a, 1, "ONE", "TWO"))
	fmt.Printf(" %s\n", <-done)

	failed, err := a.Together([]engine.Move{{Peer: 1, Recv: true, Buf: make([]byte, 1)}, {Peer: 5}}, world, 7, 7, nil, nil)
	fmt.Println(failed, errors.Is(err, engine.ErrRank))
	// Output:
	// [one two] [ONE TWO]
	// 1 true
}

func ExampleEngine_Exchange() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	done := make(chan error)
	go func() {
		_, _, err := b.Exchange(0, []byte("pong"), 0, make([]byte, 4), world, 1, 1, nil, nil)
		done <- err
	}()
	in := make([]byte, 4)
	st, _, err := a.Exchange(1, []byte("ping"), 1, in, world, 1, 1, nil, nil)
	fmt.Printf("%s, %d bytes, %v, %v\n", in, st.Bytes, err, <-done)
	// Output: pong, 4 bytes, <nil>, <nil>
}
