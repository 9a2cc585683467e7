// Loop sends -count messages of -size bytes from one matching engine to another
// within one goroutine and nothing else, so that a simulator such as callgrind
// counts the instructions of a message's whole way through the library, the
// same in every run: send, transport in memory, matching, receive. A message is
// at most 16384 bytes: a larger one would wait for its receiver, who is the sender.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

func main() {
	count := flag.Int("count", 1000, "messages")
	size := flag.Int("size", 8, "bytes in each")
	flag.Parse()
	if err := loop(*count, *size); err != nil {
		fmt.Fprintln(os.Stderr, "loop:", err)
		os.Exit(1)
	}
	fmt.Println("checkpointing compiled in:", rpi.Checkpointing)
}

// loop sends and receives count messages.
func loop(count, size int) error {
	e, err := engines()
	if err != nil {
		return err
	}
	bytes := &rpi.Type{ID: 8, Size: 1, Name: "uint8"}
	out, in := make([]byte, size), make([]byte, size)
	for range count {
		r, err := e[1].Irecv(0, 0, 1, bytes, in)
		if err != nil {
			return err
		}
		if err := e[0].Send(1, 0, 1, bytes, out, rpi.Standard, nil); err != nil {
			return err
		}
		for done := false; !done; {
			if _, done, err = e[1].Test(r); err != nil {
				return err
			}
		}
	}
	for i := range e {
		if err := e[i].Close(); err != nil {
			return err
		}
	}
	return nil
}

// engines returns two connected engines that nothing drives but the caller.
func engines() (e [2]*rpi.Engine, err error) {
	fabric := mem.NewFabric(len(e))
	addrs := make([][]byte, len(e))
	for i := range e {
		m := fabric.Module(i)
		e[i] = rpi.New(rpi.Config{Rank: i, Size: len(e), Modules: []rpi.Module{m}, Manual: true})
		if addrs[i], err = m.Start(rpi.Env{Rank: i, Size: len(e), Sink: e[i].Sink(0)}); err != nil {
			return e, err
		}
	}
	for i := range e {
		if err := fabric.Module(i).Peers(addrs); err != nil {
			return e, err
		}
		e[i].Start()
	}
	return e, nil
}
