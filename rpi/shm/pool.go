package shm

// pool is a rank's chunks: pieces of its own segment in which payloads lie until the receiver has
// copied them. Only the sender keeps account of them. A chunk is free again when its receiver has
// used up the cell that named it.
type pool struct {
	mem  []byte // the segment
	at   int    // where the chunks begin: first the small, then the large
	cut  uint16 // chunks from this number on are large
	free [2]chunks
}

func (p *pool) init(mem []byte, at int, g geometry) {
	*p = pool{mem: mem, at: at, cut: uint16(g.small)}
	for i := g.small + g.large - 1; i >= 0; i-- {
		p.put(uint16(i))
	}
}

// chunks are free chunks, in the order in which they became free.
type chunks struct {
	ids   [maxSmall]uint16 // in a ring
	first uint32
	n     uint32
}

func (c *chunks) add(id uint16) {
	c.ids[(c.first+c.n)%maxSmall] = id
	c.n++
}

// newest and oldest take one chunk out. There must be one.
func (c *chunks) newest() uint16 {
	c.n--
	return c.ids[(c.first+c.n)%maxSmall]
}

func (c *chunks) oldest() uint16 {
	id := c.ids[c.first%maxSmall]
	c.first, c.n = c.first+1, c.n-1
	return id
}

// pieceOf is how much of a payload of n bytes goes into one chunk. The receiver copies one piece
// while the sender fills the next. Each piece costs as much as 1 to 2 KB do: streams of 8 KB were
// slower in pieces.
func pieceOf(n int) int {
	if n <= largeChunk {
		return largeChunk / 2
	}
	return largeChunk
}

// get takes a chunk for a message of n bytes: the one freed last, which is in the cache.
func (p *pool) get(n int) (id uint16, ok bool) {
	free := p.fit(n)
	if free.n == 0 {
		return 0, false
	}
	return free.newest(), true
}

// getOld takes a chunk for a piece of n bytes: the one freed first. By then its lines have gone
// from the receiver's cache to one that both ranks have. Fetching them from the receiver's cache,
// while it reads the pieces before, took more than twice as long for 32 to 256 KB (EPYC 9004). A
// message in a single chunk takes 1.1 to 1.3 of the time with the oldest chunk: see get.
func (p *pool) getOld(n int) (id uint16, ok bool) {
	free := p.fit(n)
	if free.n == 0 {
		return 0, false
	}
	return free.oldest(), true
}

// fit returns the free chunks of the size for n bytes.
func (p *pool) fit(n int) *chunks {
	if n <= smallChunk && p.free[0].n > 0 {
		return &p.free[0]
	}
	return &p.free[1]
}

func (p *pool) put(id uint16) {
	if id < p.cut {
		p.free[0].add(id)
	} else {
		p.free[1].add(id)
	}
}

// chunk returns the place of a chunk in the segment, and its size.
func (p *pool) chunk(id uint16) (at, size int) {
	if id < p.cut {
		return p.at + int(id)*smallChunk, smallChunk
	}
	return p.at + int(p.cut)*smallChunk + int(id-p.cut)*largeChunk, largeChunk
}

// mostOwned is the longest frame whose lines the reader takes for its own.
const mostOwned = 64 << 10

// payload returns n bytes of a peer's pool, mapped so that they are read the fastest.
//
// A processor moves a line to a reader that may write it. The rank that filled the line then gets
// it back without asking who else has a copy, and a string instruction does not even fetch its
// content. With a cache in common that pays from 5 KB on and costs nothing up to 2 KB; without one
// it pays at all lengths (EPYC 9005). 4 KB took 1.15 of the time there, but 0.7 on an EPYC 9004,
// where it pays at all lengths, with a common cache or without.
//
// But the reader's cache cannot just drop such lines. Sums of 1 MB took 1.2 to 1.4 times as long,
// as neither cache held what the ranks exchanged. So longer frames are read through the read-only
// mapping.
func (m *Module) payload(p *peer, at, n int) []byte {
	if p.in.long {
		return p.data[at : at+n]
	}
	at -= m.layout.pool
	return p.pool[at : at+n]
}

// ample reports whether there are chunks of both sizes.
func (p *pool) ample() bool { return p.free[0].n > 0 && p.free[1].n > 0 }
