package main

import (
	"github.com/gorun-mpi/gorun/mpi"
)

const (
	tagData = 1
	tagAck  = 2
	window  = 64 // messages under way in Uniband and Biband
)

// messages are the tests of messages between ranks.
var messages = []*test{
	{name: "PingPong", shape: oneTime, pair: true, unit: 1, scale: 1, parts: 2, loose: true, room: blocks(2), step: pingPong(false)},
	{name: "PingPongAnySource", shape: oneTime, pair: true, off: true, unit: 1, scale: 1, parts: 2, loose: true, room: blocks(2), step: pingPong(true)},
	{name: "PingPing", shape: oneTime, pair: true, unit: 1, scale: 1, parts: 1, loose: true, room: blocks(2), step: pingPing(false)},
	{name: "PingPingAnySource", shape: oneTime, pair: true, off: true, unit: 1, scale: 1, parts: 1, loose: true, room: blocks(2), step: pingPing(true)},
	{name: "Sendrecv", shape: timesAndRate, unit: 1, scale: 2, parts: 1, loose: true, room: blocks(2), step: ring},
	{name: "Exchange", shape: timesAndRate, unit: 1, scale: 4, parts: 1, loose: true, room: blocks(4), step: exchange},
	{name: "Uniband", shape: rates, unit: 1, scale: 1, parts: 1, loose: true, room: blocks(2), step: band(false)},
	{name: "Biband", shape: rates, unit: 1, scale: 2, parts: 1, loose: true, room: blocks(2), step: band(true)},
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

func pingPong(any bool) func(s *sample) func(int) error {
	return func(s *sample) func(int) error {
		peer, out, in := 1-s.rank, s.Bytes(1), s.Bytes(1)
		src := from(peer, any)
		return func(int) error {
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
		}
	}
}

func pingPing(any bool) func(s *sample) func(int) error {
	return func(s *sample) func(int) error {
		peer, out, in := 1-s.rank, s.Bytes(1), s.Bytes(1)
		src := from(peer, any)
		return func(int) error {
			r, err := mpi.Isend(s.C, out, peer, tagData)
			if err != nil {
				return err
			}
			if _, err := mpi.Recv(s.C, in, src, tagData); err != nil {
				return err
			}
			_, err = r.Wait()
			return err
		}
	}
}

// ring sends to the right and receives from the left.
func ring(s *sample) func(int) error {
	out, in := s.Bytes(1), s.Bytes(1)
	right, left := (s.rank+1)%s.np, (s.rank+s.np-1)%s.np
	return func(int) error {
		_, err := mpi.Sendrecv(s.C, out, right, tagData, in, left, tagData)
		return err
	}
}

// exchange sends to both neighbours in the ring and receives from both.
func exchange(s *sample) func(int) error {
	right, left := (s.rank+1)%s.np, (s.rank+s.np-1)%s.np
	toRight, toLeft, in, other := s.Bytes(1), s.Bytes(1), s.Bytes(1), s.Bytes(1)
	rs, st := make([]mpi.Request, 2), make([]mpi.Status, 2)
	return func(int) (err error) {
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
	}
}

// band sends windows of messages from the first half of the ranks to the second, or both ways. The receiver answers
// each window. Of an odd number of ranks the last one does nothing.
func band(both bool) func(s *sample) func(int) error {
	return func(s *sample) func(int) error {
		half := s.np / 2
		if s.rank >= 2*half {
			s.idle = true
			return func(int) error { return nil }
		}
		first := s.rank < half
		peer := (s.rank + half) % (2 * half)
		out, in, ack := s.Bytes(1), s.Bytes(1), make([]byte, 1)
		rs, st := make([]mpi.Request, 0, 2*window), make([]mpi.Status, 2*window)
		return func(int) error {
			rs = rs[:0]
			for range window {
				if both || !first {
					r, err := mpi.Irecv(s.C, in, peer, tagData)
					if err != nil {
						return err
					}
					rs = append(rs, r)
				}
			}
			for range window {
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
		}
	}
}
