package main

import (
	"github.com/gorun-mpi/gorun/benchmarks/internal/patterns"
	"github.com/gorun-mpi/gorun/mpi"
)

const (
	tagData = 1
	tagAck  = 2

	tagBarrier = 3
)

// messages are the tests of messages between ranks.
var messages = []*test{
	{name: "PingPong", shape: oneTime, pair: true, unit: 1, scale: 1, parts: 2, loose: true, room: blocks(2), on: pingPong(false)},
	{name: "PingPongSpecificSource", shape: oneTime, pair: true, off: true, unit: 1, scale: 1, parts: 2, loose: true, room: blocks(2), on: pingPong(false)},
	{name: "PingPongAnySource", shape: oneTime, pair: true, off: true, unit: 1, scale: 1, parts: 2, loose: true, room: blocks(2), on: pingPong(true)},
	{name: "PingPing", shape: oneTime, pair: true, unit: 1, scale: 1, parts: 1, loose: true, room: blocks(2), on: pingPing(false)},
	{name: "PingPingSpecificSource", shape: oneTime, pair: true, off: true, unit: 1, scale: 1, parts: 1, loose: true, room: blocks(2), on: pingPing(false)},
	{name: "PingPingAnySource", shape: oneTime, pair: true, off: true, unit: 1, scale: 1, parts: 1, loose: true, room: blocks(2), on: pingPing(true)},
	{name: "Sendrecv", shape: timesAndRate, unit: 1, scale: 2, parts: 1, loose: true, room: blocks(2), on: ring},
	{name: "Exchange", shape: timesAndRate, unit: 1, scale: 4, parts: 1, loose: true, room: blocks(4), on: exchange},
	{name: "Uniband", shape: rates, even: true, off: true, unit: 1, scale: 1, parts: 1, loose: true, room: blocks(2), on: band(false)},
	{name: "Biband", shape: rates, even: true, off: true, unit: 1, scale: 2, parts: 1, loose: true, room: blocks(2), on: band(true)},
}

// blocks is the room of a test whose buffers do not depend on the number of ranks.
func blocks(n int) func(int) int { return func(int) int { return n } }

// from is whom a receive names: the peer, or any rank.
func from(peer int, any bool) int {
	if any {
		return mpi.AnySource
	}
	return peer
}

// check tells whether a repetition moves a message to one rank and another from one, each nil where there is none.
func (s *sample) check(out []byte, to int, in []byte, from int) patterns.Check {
	return patterns.Check{
		Fill: func(i int) {
			patterns.Fill(out, s.rank, to, i)
			clear(in)
		},
		Wrong: func(i int) int { return patterns.Wrong(in, from, s.rank, i) },
	}
}

func pingPong(any bool) func(s *sample) patterns.Calls {
	return func(s *sample) patterns.Calls {
		peer, out, in := 1-s.rank, s.Bytes(1), s.Bytes(1)
		src := from(peer, any)
		return patterns.Calls{Check: s.check(out, peer, in, peer), Do: func(int) error {
			if s.rank == 0 {
				if err := mpi.Send(s.C, out, peer, tagData); err != nil {
					return err
				}
			}
			if _, err := mpi.Recv(s.C, in, src, tagData); err != nil {
				return err
			}
			if s.rank == 1 {
				return mpi.Send(s.C, out, peer, tagData)
			}
			return nil
		}}
	}
}

func pingPing(any bool) func(s *sample) patterns.Calls {
	return func(s *sample) patterns.Calls {
		peer, out, in := 1-s.rank, s.Bytes(1), s.Bytes(1)
		src := from(peer, any)
		return patterns.Calls{Check: s.check(out, peer, in, peer), Do: func(int) error {
			r, err := mpi.Isend(s.C, out, peer, tagData)
			if err != nil {
				return err
			}
			if _, err := mpi.Recv(s.C, in, src, tagData); err != nil {
				return err
			}
			_, err = r.Wait()
			return err
		}}
	}
}

// ring sends to the right and receives from the left.
func ring(s *sample) patterns.Calls {
	out, in := s.Bytes(1), s.Bytes(1)
	right, left := (s.rank+1)%s.np, (s.rank+s.np-1)%s.np
	return patterns.Calls{Check: s.check(out, right, in, left), Do: func(int) error {
		_, err := mpi.Sendrecv(s.C, out, right, tagData, in, left, tagData)
		return err
	}}
}

// exchange sends to both neighbours in the ring and receives from both.
func exchange(s *sample) patterns.Calls {
	right, left := (s.rank+1)%s.np, (s.rank+s.np-1)%s.np
	toRight, toLeft, in, other := s.Bytes(1), s.Bytes(1), s.Bytes(1), s.Bytes(1)
	// Both messages to a neighbour are the same: on two ranks it is one rank.
	one, two := s.check(toRight, right, in, left), s.check(toLeft, left, other, right)
	check := patterns.Check{
		Fill:  func(i int) { one.Fill(i); two.Fill(i) },
		Wrong: func(i int) int { return one.Wrong(i) + two.Wrong(i) },
	}
	rs, st := make([]mpi.Request, 2), make([]mpi.Status, 2)
	return patterns.Calls{Check: check, Do: func(int) (err error) {
		// On two ranks both messages come from one: tags tell the directions.
		if rs[0], err = mpi.Isend(s.C, toRight, right, tagData); err != nil {
			return err
		}
		if rs[1], err = mpi.Isend(s.C, toLeft, left, tagAck); err != nil {
			return err
		}
		if _, err := mpi.Recv(s.C, in, left, tagData); err != nil {
			return err
		}
		if _, err := mpi.Recv(s.C, other, right, tagAck); err != nil {
			return err
		}
		return mpi.WaitallInto(rs, st)
	}}
}

// band sends windows of messages from the first half of the ranks to the second, or both ways. The receiver answers
// each window.
func band(both bool) func(s *sample) patterns.Calls {
	return func(s *sample) patterns.Calls {
		half := s.np / 2
		first := s.rank < half
		peer := (s.rank + half) % s.np
		out, in, ack := s.Bytes(1), s.Bytes(1), make([]byte, 1)
		check := s.check(out, peer, in, peer)
		if first && !both {
			check = s.check(out, peer, nil, peer)
		}
		rs, st := make([]mpi.Request, 0, 2*s.window), make([]mpi.Status, 2*s.window)
		return patterns.Calls{Check: check, Do: func(int) error {
			rs = rs[:0]
			for range s.window {
				if both || !first {
					r, err := mpi.Irecv(s.C, in, peer, tagData)
					if err != nil {
						return err
					}
					rs = append(rs, r)
				}
			}
			for range s.window {
				if both || first {
					r, err := mpi.Isend(s.C, out, peer, tagData)
					if err != nil {
						return err
					}
					rs = append(rs, r)
				}
			}
			if err := mpi.WaitallInto(rs, st[:len(rs)]); err != nil {
				return err
			}
			if first {
				_, err := mpi.Recv(s.C, ack, peer, tagAck)
				return err
			}
			return mpi.Send(s.C, ack, peer, tagAck)
		}}
	}
}
