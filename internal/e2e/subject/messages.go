package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/mpi"
)

const (
	small = 16        // words, eager
	large = 128 << 10 // words, 1 MB: rendezvous
)

// wildcard: rank 0 is blocked for ever in a receive from anybody, rank 2 in one
// from rank 1, while rank 1 computes and looks for messages nobody has sent.
func wildcard(s *stage, c *mpi.Comm) error {
	switch c.Rank() {
	case 0:
		s.inside(c, "mpi.Recv[")
		buf := make([]uint64, small)
		st, err := mpi.Recv(c, buf, mpi.AnySource, mpi.AnyTag)
		if err != nil {
			return err
		}
		if st.Source != 1 || st.Tag != 7 {
			return fmt.Errorf("received from %d with tag %d", st.Source, st.Tag)
		}
		if err := same(buf, 7); err != nil {
			return err
		}
		return s.result(c, buf)
	case 1:
		s.here(1)
		sum := 0
		for !s.open("go") {
			for i := range 1_000_000 {
				sum += i ^ sum
			}
			if _, ok, err := c.Iprobe(mpi.AnySource, mpi.AnyTag); err != nil || ok {
				return fmt.Errorf("a message out of nothing, or an error: %v", err)
			}
		}
		return errors.Join(mpi.Send(c, noise(small, 7), 0, 7), mpi.Send(c, noise(small, 9), 2, 9))
	default:
		s.inside(c, "mpi.Recv[")
		buf := make([]uint64, small)
		if _, err := mpi.Recv(c, buf, 1, 9); err != nil {
			return err
		}
		return same(buf, 9)
	}
}

// ssend: synchronous sends, a small and a large one, whose receives nobody has
// posted.
func ssend(s *stage, c *mpi.Comm) error {
	if c.Rank() == 0 {
		s.inside(c, "mpi.Ssend[")
		return errors.Join(together(
			func() error { return mpi.Ssend(c, noise(small, 1), 1, 1) },
			func() error { return mpi.Ssend(c, noise(large, 2), 1, 2) }), s.result(c, "sent"))
	}
	s.here(1)
	s.wait("go")
	for tag, n := range map[int]int{2: large, 1: small} {
		buf := make([]uint64, n)
		if _, err := mpi.Recv(c, buf, 0, tag); err != nil {
			return err
		}
		if err := same(buf, uint64(tag)); err != nil {
			return err
		}
	}
	return nil
}

// rendezvous: large messages are announced and wait for their receives, and
// receives for messages that have not been sent.
func rendezvous(s *stage, c *mpi.Comm) error {
	const n = 4
	switch c.Rank() {
	case 0:
		s.inside(c, "mpi.Waitall(")
		var all []mpi.Request
		for tag := range n {
			r, err := mpi.Isend(c, noise(8*large, uint64(tag)), 1, tag)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		_, err := mpi.Waitall(all)
		return errors.Join(err, s.result(c, "sent"))
	case 1:
		s.here(1)
		s.wait("go")
		for tag := n - 1; tag >= 0; tag-- {
			buf := make([]uint64, 8*large)
			if _, err := mpi.Recv(c, buf, 0, tag); err != nil {
				return err
			}
			if err := same(buf, uint64(tag)); err != nil {
				return err
			}
		}
		return mpi.Send(c, noise(4*large, 3), 2, 0)
	default:
		buf := make([]uint64, 4*large)
		r, err := mpi.Irecv(c, buf, 1, 0)
		if err != nil {
			return err
		}
		s.inside(c, "mpi.Request.Wait(")
		if _, err := r.Wait(); err != nil {
			return err
		}
		return same(buf, 3)
	}
}

// stream: messages of a few megabytes go round and round, so that there are
// always some half sent, and ranks are always half out of a broadcast.
func stream(s *stage, c *mpi.Comm) error {
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	buf := make([]uint64, 3*large)
	for i, end := uint64(0), false; !end; i++ {
		r, err := mpi.Irecv(c, buf, before, 0)
		if err != nil {
			return err
		}
		if err := mpi.Send(c, noise(len(buf), i*64+uint64(c.Rank())), next, 0); err != nil {
			return err
		}
		if _, err := r.Wait(); err != nil {
			return err
		}
		if err := same(buf, i*64+uint64(before)); err != nil {
			return fmt.Errorf("lap %d: %w", i, err)
		}
		flag := []bool{c.Rank() == 0 && s.open("go")}
		if err := mpi.Bcast(c, flag, 0); err != nil {
			return err
		}
		if end = flag[0]; i == 0 {
			s.here(c.Rank())
		}
	}
	return s.result(c, "streamed")
}

// ring: small messages and sums without pause, among any number of ranks.
func ring(s *stage, c *mpi.Comm) error {
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	for i, end := 0, false; !end; i++ {
		got := []int{0}
		if _, err := mpi.Sendrecv(c, []int{i + c.Rank()}, next, 0, got, before, 0); err != nil {
			return err
		}
		if got[0] != i+before {
			return fmt.Errorf("lap %d: got %d of rank %d", i, got[0], before)
		}
		stop := []int{0}
		if c.Rank() == 0 && s.open("go") {
			stop[0] = 1
		}
		if err := mpi.AllreduceInPlace(c, stop, mpi.Sum); err != nil {
			return err
		}
		if end = stop[0] > 0; i == 0 {
			s.here(c.Rank())
		}
	}
	return s.result(c, "round")
}

// idle: every rank waits for the next one, until standard input ends.
func idle(s *stage, c *mpi.Comm) error {
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	s.inside(c, "mpi.RecvValue[")
	wait := func() error {
		_, _, err := mpi.RecvValue[int](c, next, 0)
		return err
	}
	if c.Rank() > 0 {
		return errors.Join(wait(), mpi.SendValue(c, 1, before, 0))
	}
	return errors.Join(together(wait, func() error {
		_, err := io.Copy(io.Discard, os.Stdin)
		return errors.Join(err, mpi.SendValue(c, 1, before, 0))
	}), s.result(c, "idle"))
}

// order: what has arrived and was not received is received in the order in
// which it was sent, and posted receives match in the order in which they were
// posted.
func order(s *stage, c *mpi.Comm) error {
	const n = 200
	late, err := c.Dup()
	if err != nil {
		return err
	}
	if c.Rank() > 0 {
		for i := range n {
			if err := mpi.SendValue(c, i, 0, i%3); err != nil {
				return err
			}
		}
		if err := mpi.SendValue(late, -1, 0, 1); err != nil {
			return err
		}
		s.here(c.Rank())
		s.wait("go")
		if c.Rank() == 1 {
			for i := range 3 {
				if err := mpi.SendValue(late, i, 0, 5); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for src := 1; src < c.Size(); src++ { // all of the others' messages are here
		if _, _, err := mpi.RecvValue[int](late, src, 1); err != nil {
			return err
		}
	}
	var got [3][]int
	var requests []mpi.Request
	for i, from := range []struct{ src, tag int }{{mpi.AnySource, mpi.AnyTag}, {1, mpi.AnyTag}, {mpi.AnySource, 5}} {
		got[i] = []int{-1}
		r, err := mpi.Irecv(late, got[i], from.src, from.tag)
		if err != nil {
			return err
		}
		requests = append(requests, r)
	}
	s.here(0)
	s.wait("go")
	if err := inOrder(c, n); err != nil {
		return err
	}
	if _, err := mpi.Waitall(requests); err != nil {
		return err
	}
	for i := range got {
		if got[i][0] != i {
			return fmt.Errorf("receive %d got message %d", i, got[i][0])
		}
	}
	return s.result(c, "in order")
}

// inOrder receives n messages of each other rank: first those with tag 0 of rank
// 1, then whatever comes.
func inOrder(c *mpi.Comm, n int) error {
	for i := 0; i < n; i += 3 {
		if v, _, err := mpi.RecvValue[int](c, 1, 0); err != nil || v != i {
			return fmt.Errorf("rank 1, tag 0: message %d instead of %d, %v", v, i, err)
		}
	}
	last := make([]int, c.Size())
	for i := range last {
		last[i] = -1
	}
	for range n*(c.Size()-1) - (n+2)/3 {
		v, st, err := mpi.RecvValue[int](c, mpi.AnySource, mpi.AnyTag)
		if err != nil {
			return err
		}
		if v <= last[st.Source] || v%3 != st.Tag {
			return fmt.Errorf("message %d of rank %d, tag %d, came after message %d", v, st.Source, st.Tag, last[st.Source])
		}
		last[st.Source] = v
	}
	return nil
}

// silent: two ranks talk, the others have not said a word before they are let
// go.
func silent(s *stage, c *mpi.Comm) error {
	if c.Rank() < 2 {
		peer := 1 - c.Rank()
		for i, end := 0, false; !end; i++ {
			mine := 0
			if c.Rank() == 0 && s.open("go") {
				mine = 1
			}
			got := []int{0}
			if _, err := mpi.Sendrecv(c, []int{mine}, peer, 0, got, peer, 0); err != nil {
				return err
			}
			if end = got[0]+mine > 0; i == 0 {
				s.here(c.Rank())
			}
		}
	} else {
		s.here(c.Rank())
		s.wait("go")
	}
	return s.everybody(c)
}

// everybody exchanges a large message between all pairs.
func (s *stage) everybody(c *mpi.Comm) error {
	send, recv := make([]uint64, 0, c.Size()*small*1024), make([]uint64, c.Size()*small*1024)
	for to := range c.Size() {
		send = append(send, noise(small*1024, uint64(c.Rank()*c.Size()+to))...)
	}
	if err := mpi.Alltoall(c, send, recv); err != nil {
		return err
	}
	for from := range c.Size() {
		if err := same(recv[from*small*1024:][:small*1024], uint64(from*c.Size()+c.Rank())); err != nil {
			return fmt.Errorf("from rank %d: %w", from, err)
		}
	}
	return s.result(c, "everybody")
}
