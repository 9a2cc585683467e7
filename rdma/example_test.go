package rdma_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gorun-mpi/gorun/rdma"
)

// hub is a Gather among goroutines. Processes have sockets instead, or communicators.
type hub struct {
	mu   sync.Mutex
	cond *sync.Cond
	size int
	said [][]byte
	last [][]byte
	n    int
	turn int
}

func newHub(size int) *hub {
	h := &hub{size: size, said: make([][]byte, size)}
	h.cond = sync.NewCond(&h.mu)
	return h
}

// of returns the Gather of a rank.
func (h *hub) of(rank int) rdma.Gather {
	return func(own []byte) ([][]byte, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.said[rank] = bytes.Clone(own)
		turn := h.turn
		if h.n++; h.n == h.size {
			h.last, h.said, h.n = h.said, make([][]byte, h.size), 0
			h.turn++
			h.cond.Broadcast()
		}
		for h.turn == turn {
			h.cond.Wait()
		}
		return h.last, nil
	}
}

// side is one rank of the examples.
type side struct {
	dev    *rdma.Device
	domain rdma.Domain
	queue  rdma.Queue
	region rdma.Region
	pair   rdma.Pair
	memory []byte
	key    rdma.RemoteRegion // the peer's
}

// told is what peers tell each other.
type told struct {
	Pair rdma.PeerPair
	Key  rdma.RemoteRegion
}

// newSide opens a device and what a connection takes, and connects it to that of the other rank of two.
func newSide(rank int, gather rdma.Gather) (s *side, err error) {
	s = &side{memory: make([]byte, 256)}
	if s.dev, err = rdma.Open(rank, "soft", ""); err != nil {
		return nil, err
	}
	if s.domain, err = s.dev.NewDomain(); err != nil {
		return nil, err
	}
	if s.queue, err = s.dev.NewQueue(64); err != nil {
		return nil, err
	}
	if s.region, err = s.domain.Register(s.memory, rdma.LocalWrite|rdma.RemoteRead|rdma.RemoteWrite); err != nil {
		return nil, err
	}
	if s.pair, err = s.domain.NewPair(rdma.PairConfig{Send: s.queue, Receive: s.queue, SendDepth: 16, ReceiveDepth: 16, Inline: 64}); err != nil {
		return nil, err
	}
	var own told
	if own.Pair, err = s.pair.Address(); err != nil {
		return nil, err
	}
	if own.Key, err = s.region.Key(); err != nil {
		return nil, err
	}
	all, err := rdma.Exchange(gather, own)
	if err != nil {
		return nil, err
	}
	s.key = all[1-rank].Key
	return s, s.pair.Connect(rdma.RemoteRead|rdma.RemoteWrite, all[1-rank].Pair)
}

// both runs a function on two connected ranks, and closes them.
func both(f func(rank int, s *side, gather rdma.Gather) error) {
	h := newHub(2)
	var wg sync.WaitGroup
	for rank := range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			s, err := newSide(rank, h.of(rank))
			if err == nil {
				err = f(rank, s, h.of(rank))
			}
			if err == nil { // a rank may need the other's polls
				err = together(s, h.of(rank))
			}
			if err == nil {
				err = s.dev.Close()
			}
			if err != nil {
				fmt.Println("rank", rank, err)
			}
		}()
	}
	wg.Wait()
}

// together waits until both ranks have no more to do, which Quiesce finds out.
func together(s *side, gather rdma.Gather) error {
	if err := s.dev.Quiesce(gather); err != nil {
		return err
	}
	s.dev.Continue()
	return nil
}

// next waits for one completion.
func (s *side) next() (rdma.Completion, error) {
	var c [1]rdma.Completion
	_, err := s.queue.Wait(context.Background(), c[:])
	if err == nil {
		err = c[0].Status.Err()
	}
	return c[0], err
}

// One rank writes to the memory of the other, and tells it by an immediate value.
func Example() {
	both(func(rank int, s *side, _ rdma.Gather) error {
		if rank == 1 {
			if _, err := s.pair.PostReceive([]rdma.Receive{{ID: 7}}); err != nil {
				return err
			}
			c, err := s.next()
			fmt.Println(c.ID, c.Opcode, c.Bytes, c.Immediate, string(s.memory[100:105]))
			return err
		}
		copy(s.memory, "hello")
		_, err := s.pair.Post([]rdma.Request{{Opcode: rdma.WriteImmediate, Immediate: 42, Segments: []rdma.Segment{s.region.At(0, 5)}, Remote: s.key, Off: 100}})
		return err
	})
	// Output: 7 receive-write 5 42 hello
}

// A checkpoint with messages under way: rank 0 has sent one for which rank 1 has no receive yet. They go on in new devices.
func ExampleLoad() {
	both(func(rank int, s *side, gather rdma.Gather) error {
		if rank == 0 {
			if _, err := s.pair.Post([]rdma.Request{{ID: 1, Opcode: rdma.Send, Flags: rdma.Inline, Data: []byte("early")}}); err != nil {
				return err
			}
		}
		if err := s.dev.Quiesce(gather); err != nil {
			return err
		}
		image, err := s.dev.Image() // to a file, with s.memory
		if err != nil {
			return err
		}
		if err := s.dev.Close(); err != nil { // the process ends
			return err
		}
		memory := bytes.Clone(s.memory) // in another process
		s.dev, err = rdma.Load(image, "soft", "", func(rdma.ID) []byte { return memory }, gather)
		if err != nil {
			return err
		}
		pair, err := s.dev.Pair(s.pair.ID())
		if err != nil || rank == 0 {
			return err
		}
		region, _ := s.dev.Region(s.region.ID()) // it is there, as the pair was
		s.queue, _ = s.dev.Queue(s.queue.ID())
		if _, err := pair.PostReceive([]rdma.Receive{{Segments: []rdma.Segment{region.At(0, 64)}}}); err != nil {
			return err
		}
		c, err := s.next()
		fmt.Println(c.Opcode, string(memory[:c.Bytes]))
		return err
	})
	// Output: receive early
}

// The ranks stop, and go on over another device.
func ExampleDevice_Restart() {
	both(func(rank int, s *side, gather rdma.Gather) error {
		if err := s.dev.Quiesce(gather); err != nil {
			return err
		}
		if _, err := s.pair.Post([]rdma.Request{{}}); !errors.Is(err, rdma.ErrQuiet) {
			fmt.Println(err)
		}
		if err := s.dev.Restart("soft", "127.0.0.1", false, gather); err != nil {
			return err
		}
		if rank == 0 {
			_, err := s.pair.Post([]rdma.Request{{Opcode: rdma.Send, Flags: rdma.Inline, Data: []byte("again")}})
			return err
		}
		if _, err := s.pair.PostReceive([]rdma.Receive{{Segments: []rdma.Segment{s.region.At(0, 8)}}}); err != nil {
			return err
		}
		c, err := s.next()
		fmt.Println(c.Opcode, string(s.memory[:c.Bytes]))
		return err
	})
	// Output: receive again
}

func ExampleDevice_Quiesce() {
	both(func(rank int, s *side, gather rdma.Gather) error {
		if err := s.dev.Quiesce(gather); err != nil {
			return err
		}
		image, err := s.dev.Image()
		s.dev.Continue()
		if rank == 0 {
			fmt.Println(len(image) > 0)
		}
		return err
	})
	// Output: true
}

// A rank reads from the other, which has to poll for that (Info.Manual).
func ExamplePair_Post() {
	both(func(rank int, s *side, gather rdma.Gather) error {
		if rank == 1 {
			copy(s.memory[8:], "theirs")
		}
		if err := together(s, gather); err != nil {
			return err
		}
		if rank == 0 {
			n, err := s.pair.Post([]rdma.Request{{ID: 3, Opcode: rdma.Read, Flags: rdma.Signalled, Segments: []rdma.Segment{s.region.At(0, 6)}, Remote: s.key, Off: 8}})
			if err != nil {
				return err
			}
			c, err := s.next()
			fmt.Println(n, c.ID, c.Bytes, string(s.memory[:6]))
			if err == nil {
				_, err = s.pair.Post([]rdma.Request{{Opcode: rdma.Send, Flags: rdma.Inline}}) // rank 1 may stop polling
			}
			return err
		}
		if _, err := s.pair.PostReceive([]rdma.Receive{{}}); err != nil {
			return err
		}
		_, err := s.next()
		return err
	})
	// Output: 1 3 6 theirs
}

// Receives of several pairs may be of one queue.
func ExampleDomain_NewShared() {
	both(func(rank int, s *side, gather rdma.Gather) error {
		shared, err := s.domain.NewShared(16, 1)
		if err != nil {
			return err
		}
		n, err := shared.PostReceive([]rdma.Receive{{ID: 1, Segments: []rdma.Segment{s.region.At(0, 8)}}})
		if err != nil {
			return err
		}
		pair, err := s.domain.NewPair(rdma.PairConfig{Send: s.queue, Receive: s.queue, Shared: shared, SendDepth: 4, Inline: 8})
		if err != nil {
			return err
		}
		own, err := pair.Address()
		if err != nil {
			return err
		}
		all, err := rdma.Exchange(gather, own)
		if err != nil {
			return err
		}
		if err := pair.Connect(0, all[1-rank]); err != nil {
			return err
		}
		if _, err := pair.Post([]rdma.Request{{Opcode: rdma.Send, Flags: rdma.Inline, Data: []byte{byte(rank)}}}); err != nil {
			return err
		}
		c, err := s.next()
		if rank == 0 {
			fmt.Println(n, c.ID, c.Pair == pair.ID(), s.memory[0])
		}
		return err
	})
	// Output: 1 1 true 1
}

func ExampleOpen() {
	d, err := rdma.Open(0, "soft", "127.0.0.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Rank(), d.Info().Name)
	_, err = rdma.Open(0, "none", "")
	fmt.Println(err)
	fmt.Println(d.Close())
	// Output:
	// 0 127.0.0.1
	// rdma: this program has no provider "none"; it has to import its package
	// <nil>
}

func ExampleProviders() {
	for _, o := range rdma.Providers() {
		if o.Provider == "soft" { // others need adapters, or drivers
			fmt.Println(o.Provider, len(o.Devices) > 0, o.Err)
		}
	}
	// Output: soft true <nil>
}

// Objects close in the order in which they need each other. IDs tell what they are.
func ExampleDevice_NewDomain() {
	d, err := rdma.Open(3, "soft", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = d.Close() }()
	domain, err := d.NewDomain()
	if err != nil {
		fmt.Println(err)
		return
	}
	region, err := domain.Register(make([]byte, 64), rdma.RemoteRead)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(domain.ID(), region.ID(), region.At(8, 16))
	fmt.Println(errors.Is(domain.Close(), rdma.ErrBusy))
	fmt.Println(region.Close(), domain.Close())
	_, err = d.Domain(domain.ID())
	fmt.Println(err)
	// Output:
	// d3.1 r3.1 {r3.1 8 16}
	// true
	// <nil> <nil>
	// rdma: no such object: d3.1
}

// A pair takes receives before it is connected.
func ExamplePair_Prepare() {
	d, err := rdma.Open(0, "soft", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = d.Close() }()
	domain, _ := d.NewDomain()
	queue, _ := d.NewQueue(8)
	pair, err := domain.NewPair(rdma.PairConfig{Send: queue, Receive: queue, SendDepth: 4, ReceiveDepth: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = pair.PostReceive([]rdma.Receive{{ID: 1}})
	fmt.Println(errors.Is(err, rdma.ErrState), pair.Prepare(0))
	n, err := pair.PostReceive([]rdma.Receive{{ID: 1}})
	fmt.Println(n, err, pair.State())
	// Output:
	// true <nil>
	// 1 <nil> 1
}

// Poll does not wait.
func ExampleQueue_Poll() {
	d, err := rdma.Open(0, "soft", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = d.Close() }()
	queue, _ := d.NewQueue(8)
	fmt.Println(queue.Poll(make([]rdma.Completion, 4)))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(queue.Wait(ctx, make([]rdma.Completion, 4)))
	// Output:
	// 0 <nil>
	// 0 context canceled
}
