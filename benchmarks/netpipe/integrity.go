package main

import (
	"fmt"
	"io"
)

// integrityRounds is how many different messages of a size travel each way.
const integrityRounds = 16

// integrity sends messages to and fro and checks them on arrival. Every byte depends on its place, on the size,
// on the round and on the sender.
func integrity(p *pair, o *options, w io.Writer) error {
	for _, size := range o.sizes {
		for round := range integrityRounds {
			fill(p.out[:size], seed(size, round, p.rank))
			clear(p.in[:size])
			if p.rank == 0 {
				if err := p.send(size); err != nil {
					return err
				}
			}
			if err := p.recv(size); err != nil {
				return err
			}
			if p.rank == 1 {
				if err := p.send(size); err != nil {
					return err
				}
			}
			if at := differs(p.in[:size], seed(size, round, p.peer)); at >= 0 {
				return fmt.Errorf("message %d of %d bytes from rank %d is wrong from byte %d on", round, size, p.peer, at)
			}
		}
		if p.rank == 0 {
			fmt.Fprintf(w, "%10d bytes: %d messages intact\n", size, 2*integrityRounds)
		}
	}
	return nil
}

// generator is a small random generator (xorshift64*); every seed but 0 starts
// another sequence.
type generator uint64

func seed(size, round, rank int) generator {
	return generator((uint64(size)<<16 | uint64(round)<<1 | uint64(rank)) + 0x9e3779b97f4a7c15)
}

// next returns the next 8 bytes of the sequence.
func (g *generator) next() uint64 {
	x := uint64(*g)
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	*g = generator(x)
	return x * 0x2545f4914f6cdd1d
}

// fill writes the sequence to p.
func fill(p []byte, g generator) {
	var word uint64
	for i := range p {
		if i%8 == 0 {
			word = g.next()
		}
		p[i] = byte(word >> (i % 8 * 8))
	}
}

// differs returns the first place where p is not the sequence, -1 if none.
func differs(p []byte, g generator) int {
	var word uint64
	for i, b := range p {
		if i%8 == 0 {
			word = g.next()
		}
		if b != byte(word>>(i%8*8)) {
			return i
		}
	}
	return -1
}
