// Package pingpong measures package rdma between two processes, which poll without pause. A program that has it calls Side at its start.
//
//	process                     program                     process
//	rank 0: its pair's    ->    brings each what      <-    rank 1: its pair's
//	address                     the other says              address
//	messages to and fro, or writes of rank 0  <== queue pair ==>
//	a time                ->                                polls until it is ended
package pingpong

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/rdma"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// Test is what is measured.
type Test struct {
	Provider, Device string
	Write            bool // writes of rank 0 one after the other, up to window at once; else messages to and fro
	Size, Count      int  // bytes; messages of rank 0
}

// window is how many writes are under way. Of each batch the last one is signalled.
const (
	window = 128
	batch  = 16
)

// inline is how long a message may be to be sent from the request itself.
const inline = 64

// warm is how many messages go before those that are measured.
const warm = 20

// side names what one of the processes is to do in its environment.
const side = "GORUN_PINGPONG"

// task is what one of the processes does.
type task struct {
	Test
	Rank int
}

// Side plays one side and ends, if the process is one of Run's. Otherwise it returns.
func Side() {
	text := os.Getenv(side)
	if text == "" {
		return
	}
	var t task
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.play(t.Rank)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pingpong:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Run runs this program twice, and returns microseconds for a message, one way.
func (t Test) Run() (float64, error) {
	var sides [2]*exec.Cmd
	var in [2]*bufio.Scanner
	var out [2]*os.File
	for i := range sides {
		text, err := json.Marshal(task{t, i})
		if err != nil {
			return 0, err
		}
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), side+"="+string(text))
		c.Stderr = os.Stderr
		r, w, err := os.Pipe()
		if err != nil {
			return 0, err
		}
		c.Stdin, out[i] = r, w
		stdout, err := c.StdoutPipe()
		if err != nil {
			return 0, err
		}
		in[i] = bufio.NewScanner(stdout)
		if err := c.Start(); err != nil {
			return 0, err
		}
		_ = r.Close() // the child has it
		sides[i] = c
	}
	for i := range sides {
		if in[i].Scan() {
			fmt.Fprintln(out[1-i], in[i].Text())
		}
	}
	var took float64
	var err error
	if in[0].Scan() {
		_, _ = fmt.Sscan(in[0].Text(), &took)
	}
	for i, c := range sides {
		_ = out[i].Close() // that ends it
		err = errors.Join(err, c.Wait())
	}
	if err == nil && took <= 0 {
		err = errors.New("no result")
	}
	if err != nil {
		return 0, fmt.Errorf("%s, device %s: %w", t.Provider, t.Device, err)
	}
	return took, nil
}

// end is one side.
type end struct {
	Test
	dev    *rdma.Device
	queue  rdma.Queue
	region rdma.Region
	pair   rdma.Pair
	peer   hello

	small   [inline]byte
	segment [1]rdma.Segment
	one     [1]rdma.Request
	seen    [window]rdma.Completion
}

// hello is what one side tells the other.
type hello struct {
	Pair   rdma.PeerPair
	Memory rdma.RemoteRegion
}

func (t Test) play(rank int) error {
	e := &end{Test: t}
	if err := e.open(rank); err != nil {
		return err
	}
	test := func(n int) error { return e.trips(rank, n) }
	if t.Write {
		test = e.writes
	}
	if rank == 0 || !t.Write {
		if err := test(warm); err != nil { // connections are made
			return err
		}
		begin := time.Now()
		if err := test(t.Count); err != nil {
			return err
		}
		if rank == 0 {
			each := float64(time.Since(begin).Nanoseconds()) / 1000 / float64(t.Count)
			if !t.Write {
				each /= 2
			}
			fmt.Println(each)
		}
	}
	var over atomic.Bool
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		over.Store(true)
	}()
	for !over.Load() { // the other may need this one's polls
		if _, err := e.queue.Poll(e.seen[:]); err != nil {
			return err
		}
	}
	return e.dev.Close()
}

func (e *end) open(rank int) error {
	var err error
	if e.dev, err = rdma.Open(rank, e.Provider, e.Device); err != nil {
		return err
	}
	domain, err := e.dev.NewDomain()
	if err != nil {
		return err
	}
	if e.queue, err = e.dev.NewQueue(2 * window); err != nil {
		return err
	}
	if e.region, err = domain.Register(make([]byte, 2*e.Size), rdma.LocalWrite|rdma.RemoteWrite); err != nil {
		return err
	}
	if e.pair, err = domain.NewPair(rdma.PairConfig{Send: e.queue, Receive: e.queue, SendDepth: window, ReceiveDepth: 16, Inline: inline}); err != nil {
		return err
	}
	if err := e.pair.Prepare(rdma.RemoteWrite); err != nil {
		return err
	}
	if err := e.receive(); err != nil {
		return err
	}
	return e.connect()
}

func (e *end) connect() error {
	var own hello
	var err error
	if own.Pair, err = e.pair.Address(); err != nil {
		return err
	}
	if own.Memory, err = e.region.Key(); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(own); err != nil {
		return err
	}
	if err := json.NewDecoder(os.Stdin).Decode(&e.peer); err != nil {
		return err
	}
	return e.pair.Connect(rdma.RemoteWrite, e.peer.Pair)
}

func (e *end) receive() error {
	_, err := e.pair.PostReceive([]rdma.Receive{{Segments: []rdma.Segment{e.region.At(e.Size, e.Size)}}})
	return err
}

func (e *end) post(r rdma.Request) error {
	if e.Size <= inline {
		r.Flags, r.Data = r.Flags|rdma.Inline, e.small[:e.Size]
	} else {
		e.segment[0] = e.region.At(0, e.Size)
		r.Segments = e.segment[:]
	}
	e.one[0] = r
	_, err := e.pair.Post(e.one[:])
	return err
}

// poll returns how many completions of an opcode there are, and the ID of the last one.
func (e *end) poll(o provider.Opcode) (n int, last uint64, err error) {
	got, err := e.queue.Poll(e.seen[:])
	for _, c := range e.seen[:got] {
		if err := c.Status.Err(); err != nil {
			return 0, 0, err
		}
		if c.Opcode == o {
			n, last = n+1, c.ID
		}
	}
	return n, last, err
}

// trips sends a message to and fro.
func (e *end) trips(rank, count int) error {
	send := rdma.Request{Opcode: rdma.Send, Flags: rdma.Signalled}
	for range count {
		if rank == 0 {
			if err := e.post(send); err != nil {
				return err
			}
		}
		for got := 0; got == 0; {
			var err error
			if got, _, err = e.poll(rdma.Received); err != nil {
				return err
			}
		}
		if err := e.receive(); err != nil {
			return err
		}
		if rank == 1 {
			if err := e.post(send); err != nil {
				return err
			}
		}
	}
	return nil
}

// writes writes to the peer's memory. A request's ID is how many there are with it.
func (e *end) writes(count int) error {
	for posted, over := 0, uint64(0); over < uint64(count); {
		for posted < count && posted-int(over) < window {
			posted++
			r := rdma.Request{ID: uint64(posted), Opcode: rdma.Write, Remote: e.peer.Memory}
			if posted%batch == 0 || posted == count {
				r.Flags = rdma.Signalled
			}
			if err := e.post(r); err != nil {
				return err
			}
		}
		n, last, err := e.poll(rdma.Write)
		if err != nil {
			return err
		}
		if n > 0 {
			over = last
		}
	}
	return nil
}
