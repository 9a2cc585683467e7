package main

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/system/memcopy"
)

func piecesRoom(t task) int { return 2 * slots * t.Piece }

// pieces are messages to the other process and back in pieces, which lie in places of
// the sender's that are used again.
type pieces struct {
	*shared
	out, in   []byte
	sent, got uint64 // pieces
}

// startPieces: a message in pieces and its answer. If it is dirty a word of each line is
// written before it is sent, as real programs do.
func startPieces(s *shared, dirty bool) doing {
	p := &pieces{shared: s, out: make([]byte, s.Bytes), in: make([]byte, s.Bytes)}
	for i := range p.out {
		p.out[i] = byte(i + s.Rank)
	}
	round := byte(s.Rank)
	send := func() {
		for i := 0; dirty && i < len(p.out); i += line {
			p.out[i] = round
		}
		round++
		p.send()
	}
	do := func() {
		if s.Rank == 0 {
			send()
			p.receive()
			return
		}
		p.receive()
		send()
	}
	return doing{do, func() error { return p.check(dirty, round) }}
}

func (p *pieces) send() {
	mine := p.buffer(p.mem, p.Rank, slots*p.Piece)
	for at := 0; at < len(p.out); at += p.Piece {
		if p.sent >= slots {
			p.await(p.word(1-p.Rank, done), p.sent-slots+1)
		}
		memcopy.Bytes(mine[p.sent%slots*uint64(p.Piece):], p.out[at:at+p.Piece])
		p.sent++
		release(p.word(p.Rank, mark), p.sent)
	}
}

func (p *pieces) receive() {
	theirs := p.buffer(p.seen, 1-p.Rank, slots*p.Piece)
	for at := 0; at < len(p.in); at += p.Piece {
		p.await(p.word(1-p.Rank, mark), p.got+1)
		from := theirs[p.got%slots*uint64(p.Piece):]
		memcopy.Bytes(p.in[at:at+p.Piece], from[:p.Piece])
		p.got++
		release(p.word(p.Rank, done), p.got)
	}
}

// check compares what has come with what the other process has sent last. round is
// this one's next.
func (p *pieces) check(dirty bool, round byte) error {
	other := 1 - p.Rank
	for i, v := range p.in {
		want := byte(i + other)
		if dirty && i%line == 0 {
			want = round - 1 - byte(p.Rank) + byte(other)
		}
		if v != want {
			return fmt.Errorf("byte %d is %d instead of %d", i, v, want)
		}
	}
	return nil
}
