package shm

// pool is a rank's chunks, pieces of its own segment in which payloads lie until
// the receiver has copied them. Only the sender keeps account of them: a chunk is
// free again when the ring of its receiver is used up beyond the cell that
// named it. The one freed last is used first, for it is in the cache.
type pool struct {
	mem  []byte // the segment
	at   int    // where the chunks begin: first the small, then the large
	cut  uint16 // chunks from this number on are large
	free [2][]uint16
}

func (p *pool) init(mem []byte, at int, g geometry) {
	*p = pool{mem: mem, at: at, cut: uint16(g.small)}
	for i := g.small + g.large - 1; i >= 0; i-- {
		p.put(uint16(i))
	}
}

// pieceOf is how much of a payload of n bytes goes into a chunk. The receiver
// copies one piece while the sender fills the next; but each costs as much as 1 to
// 2 KB do, so that streams of 8 KB were slower in pieces.
func pieceOf(n int) int {
	if n <= largeChunk {
		return largeChunk / 2
	}
	return largeChunk
}

// get takes a chunk for n bytes.
func (p *pool) get(n int) (id uint16, ok bool) {
	class := 1
	if n <= smallChunk && len(p.free[0]) > 0 {
		class = 0
	}
	free := p.free[class]
	k := len(free) - 1
	if k < 0 {
		return 0, false
	}
	p.free[class] = free[:k]
	return free[k], true
}

func (p *pool) put(id uint16) {
	class := 0
	if id >= p.cut {
		class = 1
	}
	p.free[class] = append(p.free[class], id)
}

// chunk returns the place of a chunk in the segment, and its size.
func (p *pool) chunk(id uint16) (at, size int) {
	if id < p.cut {
		return p.at + int(id)*smallChunk, smallChunk
	}
	return p.at + int(p.cut)*smallChunk + int(id-p.cut)*largeChunk, largeChunk
}

// mostOwned is the longest frame whose lines its reader takes for its own.
const mostOwned = 64 << 10

// payload is n bytes of a peer's pool, as they are read the fastest. A processor hands a
// line over for good to a reader that may write it, and whoever filled it gets it back
// without asking who else has it; a string instruction does not even fetch what it
// holds. On an EPYC 9005, between processors that have a cache in common, both of that
// pays from 5 KB on, and up to 2 KB it costs nothing; without one it pays at all lengths.
// 4 KB took 1.15 of the time there, but 0.7 on an EPYC 9004, on which it pays at all
// lengths, with a cache in common or without. But such lines are not just dropped by their reader's cache: where two exchanged so much that
// neither cache held it, sums of 1 MB took 1.2 to 1.4 times as long.
func (m *Module) payload(p *peer, at, n int) []byte {
	if p.in.long {
		return p.data[at : at+n]
	}
	at -= m.layout.pool
	return p.pool[at : at+n]
}

// ample reports whether there are chunks of both sizes.
func (p *pool) ample() bool { return len(p.free[0]) > 0 && len(p.free[1]) > 0 }
