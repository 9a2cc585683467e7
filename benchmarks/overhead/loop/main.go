// Loop sends -count messages of -size bytes between two ranks, to and fro, both in one goroutine. It does
// nothing else. So a simulator such as callgrind counts the instructions of a message's whole way, the same in
// every run: mpi.Send, matching, transport, mpi.Recv. Loop also prints the time of a message, the best of many.
// That is the time of the same instructions without the way between two processors. A message has at most 16384
// bytes. A larger one would wait for its receiver, which is the sender.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/job"
	"github.com/gorun-mpi/gorun/internal/testing/world"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

func main() {
	count := flag.Int("count", 1000, "messages")
	size := flag.Int("size", 8, "bytes in each")
	name := flag.String("rpi", "mem", "transport, mem or shm: tcp would wait for the other side")
	windows := flag.Bool("window", false, "instead time the calls of windows of 64 messages, from the first rank to the second")
	flag.Parse()
	if err := loop(*name, *count, *size, *windows); err != nil {
		fmt.Fprintln(os.Stderr, "loop:", err)
		os.Exit(1)
	}
	fmt.Println("checkpointing compiled in:", engine.Checkpointing)
}

// loop sends and receives count messages.
func loop(name string, count, size int, windows bool) error {
	p, err := newPair(name)
	if err != nil {
		return err
	}
	out, in := make([]byte, size), make([]byte, size)
	if windows {
		if err := window(p, count, out, in); err != nil {
			return err
		}
		return p.close()
	}
	best := time.Duration(0)
	for left := count; left > 0; left -= batch {
		start := time.Now()
		for i := range min(left, batch) {
			if err := send(p.worlds[i%2], out); err != nil {
				return err
			}
			if err := receive(p.worlds[1-i%2], in); err != nil {
				return err
			}
		}
		if took := time.Since(start); left >= batch && (best == 0 || took < best) {
			best = took
		}
	}
	fmt.Printf("ns each: %.1f\n", float64(best)/batch)
	return p.close()
}

// batch is the number of messages that are timed together; the fastest counts.
const batch = 10000

// The two sides are functions of their own, by whose names they are told apart.

//go:noinline
func send(c *mpi.Comm, buf []byte) error { return mpi.Send(c, buf, 1-c.Rank(), 1) }

//go:noinline
func receive(c *mpi.Comm, buf []byte) error {
	_, err := mpi.Recv(c, buf, 1-c.Rank(), 1)
	return err
}

// pair is two connected ranks that nothing drives but the caller.
type pair struct {
	jobs   [2]*job.Job
	worlds [2]*mpi.Comm
}

func newPair(name string) (*pair, error) {
	p := &pair{}
	fabric := mem.NewFabric(len(p.jobs))
	addrs, modules := make([][]byte, len(p.jobs)), make([]rpi.Module, len(p.jobs))
	for i := range p.jobs {
		modules[i] = fabric.Module(i)
		if name != "mem" {
			factory, ok := rpi.Lookup(name)
			if !ok {
				return nil, fmt.Errorf("no transport %q", name)
			}
			modules[i] = factory()
		}
		e := engine.New(engine.Config{Rank: i, Size: len(p.jobs), Modules: modules[i : i+1], Manual: true})
		var err error
		if addrs[i], err = modules[i].Start(rpi.Env{Rank: i, Size: len(p.jobs), Incarnation: 1, Secret: make([]byte, 32), Sink: e.Sink(0)}); err != nil {
			return nil, err
		}
		p.jobs[i] = job.New(job.Config{Start: oob.StartConfig{Rank: i, Size: len(p.jobs), Incarnation: 1}, Engine: e, Modules: modules[i : i+1]})
		if p.worlds[i], err = world.New(p.jobs[i], func(text string) { fmt.Fprintln(os.Stderr, "loop:", text) }); err != nil {
			return nil, err
		}
	}
	for i, m := range modules {
		if err := m.Peers(addrs); err != nil {
			return nil, err
		}
		p.jobs[i].Engine.Start()
	}
	return p, nil
}

func (p *pair) close() error {
	var errs []error
	for i, j := range p.jobs {
		world.Shutdown(p.worlds[i])
		errs = append(errs, j.Finalize(0, nil))
	}
	return errors.Join(errs...)
}
