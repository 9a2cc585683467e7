package shm

import (
	"fmt"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/internal/rank/release"
	"github.com/gorun-mpi/gorun/internal/system/memcopy"
	"github.com/gorun-mpi/gorun/rpi"
)

// Most messages of some length are plain, and one chunk holds their payload. They need no header,
// and a caller that waits takes the payload straight from the chunk.

// With the other gains of a lone cell, showing halves takes 0.93 of the time at 2 KB and 0.6 to
// 0.75 at 4 KB (EPYC 9004), but 1.12 to 1.16 at 1 KB (7003). On an Intel Xeon it takes 0.9 at 8
// KB, but 1.05 at 4 KB and 1.18 at 2 KB.
const (
	mostLone    = largeChunk / 2 // bytes of the longest lone message
	leastHalved = 2 << 10        // of the shortest that is shown by halves
)

// lone is a cell of formLone or formHalf.
type lone struct {
	word  uint64
	ctx   uint64
	tag   int32
	typ   uint32
	place uint64 // low half: where the payload is in the sender's segment; high half: its length
}

func (l *lone) put(ctx uint64, tag int32, typ uint32, place uint64) {
	l.ctx, l.tag, l.typ, l.place = ctx, tag, typ, place
}

// half is the bit that tells formHalf from formLone.
const half = 1 << formShift

// halfOf is how many of n bytes are there at formHalf.
func halfOf(n int) int { return min(n, (n/2+line-1)&^(line-1)) }

// sendLone sends an eager message in one chunk. It reports false if there is no chunk. A receiver
// that has used up all other cells is likely to wait: it copies the first half of a longer payload
// while the sender writes the second. If it sleeps, it is woken before that.
func (m *Module) sendLone(peer int, ctx uint64, tag int32, typ uint32, payload []byte, more bool) bool {
	id, ok := m.pool.get(len(payload))
	if !ok {
		if m.reclaim(); m.peers[peer].down {
			return false
		}
		if id, ok = m.pool.get(len(payload)); !ok {
			return false
		}
	}
	p := &m.peers[peer]
	o := &p.out
	at, _ := m.pool.chunk(id)
	i := o.tail & o.mask
	o.leases[i] = id + 1
	o.leased++
	c := &o.cells[i]
	to, place := m.mem[at:], uint64(at)|uint64(len(payload))<<32
	w := word(seqOf(o.tail>>o.shift), 1, formLone, 0, p.in.head)
	if k := halfOf(len(payload)); len(payload) >= leastHalved && o.used == o.tail && !more {
		memcopy.Bytes(to, payload[:k])
		c.lone().put(ctx, tag, typ, place)
		release.Store(&c.word, w|half)
		ring(p.bell)
		memcopy.Bytes(to[k:], payload[k:])
	} else {
		// The cell comes last: a receiver that looks at it takes its line away, again and again.
		memcopy.Bytes(to, payload)
		c.lone().put(ctx, tag, typ, place)
	}
	o.tail++
	m.put(peer, p, c, w, more)
	return true
}

// halved leaves a message of which one half is there. The sender is writing the other half and
// then changes the word of the cell. No cell can follow before.
func (in *receiver) halved(w uint64) error {
	if in.frame || in.part != 0 || in.valid(in.head+1) && atomic.LoadUint64(in.wordOf(in.head)) == w {
		return fmt.Errorf("%w: half a message", ErrCorrupt)
	}
	in.half = w
	return rpi.Enough
}

// halfLooks is how often a receiver looks for the second half: a few microseconds.
const halfLooks = 10000

// takeChunk copies the payload of cell c, whose word is w, for a caller that waits for it. It
// reports false if only half of it comes in time: that half is in buf, and the message is left to
// Poll.
func takeChunk(c *cell, w uint64, payload, buf []byte) bool {
	if w&half != 0 {
		k := halfOf(len(payload))
		memcopy.Bytes(buf, payload[:k])
		for looks := 0; atomic.LoadUint64(&c.word) != w&^half; looks++ {
			if looks == halfLooks {
				return false
			}
		}
		buf, payload = buf[k:], payload[k:]
	}
	memcopy.Bytes(buf, payload)
	return true
}

// owe records that TakeShort has used up a chunk of the peer's: see settleUp.
func (m *Module) owe(peer int, p *peer) {
	in := &p.in
	switch {
	case !m.lends || in.behind():
		m.tell(peer, p)
	case in.owing:
		in.owes = true
	default:
		in.owes, in.owing = true, true
		m.owing = append(m.owing, peer)
	}
}
