package rdma_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/gorun-mpi/gorun/rdma"
)

// alone runs a function on a device of its own.
func alone(f func(d *rdma.Device) error) {
	d, err := rdma.Open(3, "soft", "")
	if err == nil {
		err = errors.Join(f(d), d.Close())
	}
	if err != nil {
		fmt.Println(err)
	}
}

func ExampleDevice_Info() {
	alone(func(d *rdma.Device) error {
		fmt.Println(d.Info().Name != "")
		return nil
	})
	// Output: true
}

func ExampleDevice_Rank() {
	alone(func(d *rdma.Device) error {
		fmt.Println(d.Rank())
		return nil
	})
	// Output: 3
}

func ExampleDevice_Close() {
	d, err := rdma.Open(0, "soft", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Close(), d.Close() != nil) // it closes once
	// Output: <nil> true
}

func ExampleDevice_NewQueue() {
	alone(func(d *rdma.Device) error {
		queue, err := d.NewQueue(64)
		fmt.Println(queue.ID())
		return err
	})
	// Output: c3.1
}

// After a restart a program finds its objects by what they are called.
func ExampleDevice_Domain() {
	alone(func(d *rdma.Device) error {
		domain, err := d.NewDomain()
		if err != nil {
			return err
		}
		again, err := d.Domain(domain.ID())
		fmt.Println(again == domain)
		return err
	})
	// Output: true
}

// An ID of another kind of object is none.
func ExampleDevice_Queue() {
	alone(func(d *rdma.Device) error {
		domain, err := d.NewDomain()
		if err != nil {
			return err
		}
		_, err = d.Queue(domain.ID())
		fmt.Println(errors.Is(err, rdma.ErrNoSuch))
		return nil
	})
	// Output: true
}

func ExampleDevice_Region() {
	alone(func(d *rdma.Device) error {
		domain, err := d.NewDomain()
		if err != nil {
			return err
		}
		region, err := domain.Register(make([]byte, 64), rdma.RemoteRead)
		if err != nil {
			return err
		}
		again, err := d.Region(region.ID())
		fmt.Println(again == region, region.Close(), err)
		_, err = d.Region(region.ID())
		fmt.Println(errors.Is(err, rdma.ErrNoSuch))
		return nil
	})
	// Output:
	// true <nil> <nil>
	// true
}

func ExampleDevice_Shared() {
	alone(func(d *rdma.Device) error {
		domain, err := d.NewDomain()
		if err != nil {
			return err
		}
		shared, err := domain.NewShared(16, 1)
		if err != nil {
			return err
		}
		again, err := d.Shared(shared.ID())
		fmt.Println(again == shared)
		return err
	})
	// Output: true
}

// A pair stays the same over a change of the device.
func ExampleDevice_Pair() {
	both(func(rank int, s *side, gather rdma.Gather) error {
		if err := s.dev.Quiesce(gather); err != nil {
			return err
		}
		if err := s.dev.Restart("soft", "", false, gather); err != nil {
			return err
		}
		pair, err := s.dev.Pair(s.pair.ID())
		if rank == 0 {
			fmt.Println(pair == s.pair, pair.State() == s.pair.State())
		}
		return err
	})
	// Output: true true
}

func ExampleExchange() {
	h := newHub(2)
	go func() { _, _ = rdma.Exchange(h.of(1), "from rank 1") }()
	all, err := rdma.Exchange(h.of(0), "from rank 0")
	fmt.Printf("%q %v\n", all, err)
	// Output: ["from rank 0" "from rank 1"] <nil>
}

// Between Quiesce and Continue a rank posts nothing.
func ExampleDevice_Continue() {
	both(func(rank int, s *side, gather rdma.Gather) error {
		if err := s.dev.Quiesce(gather); err != nil {
			return err
		}
		message := []rdma.Request{{Opcode: rdma.Send, Flags: rdma.Inline, Data: []byte("hello")}}
		_, quiet := s.pair.Post(message)
		s.dev.Continue()
		if rank == 0 {
			fmt.Println(errors.Is(quiet, rdma.ErrQuiet))
			_, err := s.pair.Post(message)
			return err
		}
		if _, err := s.pair.PostReceive([]rdma.Receive{{Segments: []rdma.Segment{s.region.At(0, 8)}}}); err != nil {
			return err
		}
		_, err := s.next()
		return err
	})
	// Output: true
}

// An image is as large as what is under way, and not as the regions.
func ExampleDevice_Image() {
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

func ExampleDomain_Register() {
	alone(func(d *rdma.Device) error {
		domain, err := d.NewDomain()
		if err != nil {
			return err
		}
		region, err := domain.Register(make([]byte, 4096), rdma.LocalWrite|rdma.RemoteWrite)
		fmt.Println(region.ID())
		return err
	})
	// Output: r3.1
}

func ExampleDomain_NewPair() {
	alone(func(d *rdma.Device) error {
		domain, err := d.NewDomain()
		if err != nil {
			return err
		}
		sends, err1 := d.NewQueue(4)
		receives, err2 := d.NewQueue(8)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		pair, err := domain.NewPair(rdma.PairConfig{Send: sends, Receive: receives, SendDepth: 4, ReceiveDepth: 8})
		fmt.Println(pair.ID(), errors.Is(sends.Close(), rdma.ErrBusy))
		return err
	})
	// Output: q3.1 true
}

func ExampleRegion_At() {
	alone(func(d *rdma.Device) error {
		domain, err := d.NewDomain()
		if err != nil {
			return err
		}
		region, err := domain.Register(make([]byte, 100), rdma.LocalWrite)
		s := region.At(20, 10)
		fmt.Println(s.Region == region.ID(), s.Off, s.Len)
		return err
	})
	// Output: true 20 10
}

// One rank tells the others where they may write.
func ExampleRegion_Key() {
	both(func(rank int, s *side, gather rdma.Gather) error {
		key, err := s.region.Key()
		if err != nil {
			return err
		}
		all, err := rdma.Exchange(gather, key)
		if rank == 0 {
			fmt.Println(all[0] == key, all[1] == s.key)
		}
		return err
	})
	// Output: true true
}

func ExamplePair_Address() {
	both(func(rank int, s *side, gather rdma.Gather) error {
		own, err := s.pair.Address()
		if err != nil {
			return err
		}
		all, err := rdma.Exchange(gather, own)
		if rank == 0 {
			fmt.Println(reflect.DeepEqual(all[0], own), reflect.DeepEqual(all[1], own))
		}
		return err
	})
	// Output: true false
}

func ExamplePair_State() {
	both(func(rank int, s *side, _ rdma.Gather) error {
		fresh, err := s.domain.NewPair(rdma.PairConfig{Send: s.queue, Receive: s.queue, SendDepth: 1, ReceiveDepth: 1})
		if rank == 0 {
			fmt.Println(s.pair.State() > fresh.State()) // one is connected
		}
		return err
	})
	// Output: true
}

// A rank that is connected posts at once. What it sends goes when the other is connected as well.
func ExamplePair_Connect() {
	both(func(rank int, s *side, gather rdma.Gather) error {
		pair, err := s.domain.NewPair(rdma.PairConfig{Send: s.queue, Receive: s.queue, SendDepth: 4, ReceiveDepth: 4, Inline: 8})
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
		if rank == 0 {
			_, err = pair.Post([]rdma.Request{{Opcode: rdma.Send, Flags: rdma.Inline, Data: []byte("hello")}})
			return err
		}
		if _, err := pair.PostReceive([]rdma.Receive{{Segments: []rdma.Segment{s.region.At(0, 8)}}}); err != nil {
			return err
		}
		c, err := s.next()
		fmt.Println(string(s.memory[:c.Bytes]))
		return err
	})
	// Output: hello
}

// Messages go to receives in the order in which both were posted.
func ExamplePair_PostReceive() {
	both(func(rank int, s *side, _ rdma.Gather) error {
		if rank == 0 {
			_, err := s.pair.Post([]rdma.Request{
				{Opcode: rdma.Send, Flags: rdma.Inline, Data: []byte("one")},
				{Opcode: rdma.Send, Flags: rdma.Inline, Data: []byte("two")}})
			return err
		}
		n, err := s.pair.PostReceive([]rdma.Receive{
			{ID: 1, Segments: []rdma.Segment{s.region.At(0, 8)}},
			{ID: 2, Segments: []rdma.Segment{s.region.At(8, 8)}}})
		if err != nil {
			return err
		}
		for range n {
			c, err := s.next()
			if err != nil {
				return err
			}
			fmt.Println(c.ID, string(s.memory[8*(c.ID-1):][:c.Bytes]))
		}
		return nil
	})
	// Output:
	// 1 one
	// 2 two
}

func ExampleShared_PostReceive() {
	alone(func(d *rdma.Device) error {
		domain, err := d.NewDomain()
		if err != nil {
			return err
		}
		shared, err := domain.NewShared(2, 1)
		if err != nil {
			return err
		}
		n, err := shared.PostReceive([]rdma.Receive{{ID: 1}, {ID: 2}, {ID: 3}})
		fmt.Println(n, errors.Is(err, rdma.ErrFull))
		return nil
	})
	// Output: 2 true
}

func ExampleQueue_Wait() {
	both(func(rank int, s *side, _ rdma.Gather) error {
		if rank == 0 {
			_, err := s.pair.Post([]rdma.Request{{Opcode: rdma.SendImmediate, Immediate: 9, Flags: rdma.Inline}})
			return err
		}
		if _, err := s.pair.PostReceive([]rdma.Receive{{ID: 5}}); err != nil {
			return err
		}
		done := make([]rdma.Completion, 4)
		n, err := s.queue.Wait(context.Background(), done)
		if err == nil {
			fmt.Println(n, done[0].ID, done[0].Immediate)
		}
		return err
	})
	// Output: 1 5 9
}
