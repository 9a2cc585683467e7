package image

import (
	"cmp"
	"crypto/sha256"
	"slices"
)

// Section describes one section of an image.
type Section struct {
	Name   string
	Kind   string // what kind of bytes they are; the back-end defines the names
	Type   string // type of the variable, "" if there is none
	Size   uint64 // bytes when read
	Stored uint64 // bytes in the file
	Zero   uint64 // bytes of blocks that were left out, because all of them are zero
	Blocks int
}

// block is one stored piece of a section.
type block struct {
	off       uint64
	stored    uint32
	sumStored uint32
	sumRaw    uint32
	codec     codecID
	digest    [sha256.Size]byte // of the stored bytes; zeros: there is none
}

// section is a Section with what a reader needs to find its bytes.
type section struct {
	name, kind, typ string
	size            uint64
	blockSize       uint32
	blocks          []block
	absent          bool // SectionFill found nothing to store
}

func blockCount(size uint64, blockSize uint32) uint64 {
	return (size + uint64(blockSize) - 1) / uint64(blockSize)
}

// rawLen is the length of block i when read.
func (s *section) rawLen(i int) int {
	return int(min(uint64(s.blockSize), s.size-uint64(i)*uint64(s.blockSize)))
}

func (s *section) describe() Section {
	d := Section{Name: s.name, Kind: s.kind, Type: s.typ, Size: s.size, Blocks: len(s.blocks)}
	for i := range s.blocks {
		if s.blocks[i].codec == codecZero {
			d.Zero += uint64(s.rawLen(i))
		}
		d.Stored += uint64(s.blocks[i].stored)
	}
	return d
}

func encodeTable(sections []*section) []byte {
	p := le.AppendUint32(nil, uint32(len(sections)))
	for _, s := range sections {
		p = append(le.AppendUint16(p, uint16(len(s.name))), s.name...)
		p = append(le.AppendUint16(p, uint16(len(s.kind))), s.kind...)
		p = append(le.AppendUint32(p, uint32(len(s.typ))), s.typ...)
		p = le.AppendUint64(p, s.size)
		p = le.AppendUint32(p, s.blockSize)
		p = le.AppendUint32(p, uint32(len(s.blocks)))
		for _, b := range s.blocks {
			p = le.AppendUint64(p, b.off)
			p = le.AppendUint32(p, b.stored)
			p = le.AppendUint32(p, b.sumStored)
			p = le.AppendUint32(p, b.sumRaw)
			p = append(p, byte(b.codec), 0, 0, 0)
			p = append(p, b.digest[:]...)
		}
	}
	return p
}

// cursor takes numbers and strings off a table. Once something is missing, bad stays set and all that follows
// is zero.
type cursor struct {
	p     []byte
	bad   bool
	entry int // bytes of a block's entry
}

func (c *cursor) take(n uint64) []byte {
	if c.bad || n > uint64(len(c.p)) {
		c.bad = true
		return nil
	}
	b := c.p[:n]
	c.p = c.p[n:]
	return b
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return le.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return le.Uint64(b)
	}
	return 0
}

// decodeTable reads the table of an image of some version. Blocks must lie between dataStart and dataEnd and must
// not overlap.
func decodeTable(p []byte, version int, dataStart, dataEnd uint64) ([]*section, error) {
	c := &cursor{p: p, entry: blockEntry}
	if version < versionDigests {
		c.entry = oldEntry
	}
	n := c.u32()
	if n > maxSections {
		return nil, fail(ErrTooLarge, "%d sections, at most %d", n, maxSections)
	}
	var all []*section
	seen := make(map[[2]string]bool)
	for range n {
		s, err := decodeSection(c, dataStart, dataEnd)
		if err != nil {
			return nil, err
		}
		if seen[[2]string{s.kind, s.name}] {
			return nil, fail(ErrCorrupt, "two sections %q of kind %q", s.name, s.kind)
		}
		seen[[2]string{s.kind, s.name}] = true
		all = append(all, s)
	}
	if c.bad || len(c.p) != 0 {
		return nil, fail(ErrCorrupt, "length of the table")
	}
	for i, e := range extents(all) {
		if i > 0 && e.off < e.prevEnd {
			return nil, fail(ErrCorrupt, "blocks overlap at byte %d", e.off)
		}
	}
	return all, nil
}

func decodeSection(c *cursor, dataStart, dataEnd uint64) (*section, error) {
	s := &section{}
	s.name = string(c.take(uint64(c.u16())))
	s.kind = string(c.take(uint64(c.u16())))
	s.typ = string(c.take(uint64(c.u32())))
	s.size = c.u64()
	s.blockSize = c.u32()
	count := c.u32()
	switch {
	case c.bad:
		return nil, fail(ErrCorrupt, "the table ends within a section")
	case len(s.name) > maxName, len(s.kind) > maxKind, len(s.typ) > maxType, s.size > maxSize:
		return nil, fail(ErrTooLarge, "name, kind, type or size of section %.40q", s.name)
	case s.blockSize < minBlock, s.blockSize > maxBlock, uint64(count) != blockCount(s.size, s.blockSize):
		return nil, fail(ErrCorrupt, "section %.40q: %d bytes in %d blocks of %d", s.name, s.size, count, s.blockSize)
	}
	entries := c.take(uint64(count) * uint64(c.entry))
	if c.bad {
		return nil, fail(ErrCorrupt, "the table ends within the blocks of section %.40q", s.name)
	}
	s.blocks = make([]block, count)
	for i := range s.blocks {
		e := entries[i*c.entry:][:c.entry]
		b := block{off: le.Uint64(e), stored: le.Uint32(e[8:]), sumStored: le.Uint32(e[12:]), sumRaw: le.Uint32(e[16:]), codec: codecID(e[20])}
		copy(b.digest[:], e[oldEntry:])
		if e[21]|e[22]|e[23] != 0 || !b.plausible(s.rawLen(i), dataStart, dataEnd) {
			return nil, fail(ErrCorrupt, "section %.40q: entry of block %d", s.name, i)
		}
		s.blocks[i] = b
	}
	return s, nil
}

// plausible checks what can be checked without the data. A block is never
// stored in more bytes than it has.
func (b block) plausible(raw int, dataStart, dataEnd uint64) bool {
	if b.codec == codecZero {
		return b == block{codec: codecZero}
	}
	inside := b.off >= dataStart && b.off <= dataEnd && uint64(b.stored) <= dataEnd-b.off
	switch b.codec {
	case codecNone:
		return inside && int(b.stored) == raw && b.sumRaw == b.sumStored
	case codecSnappy, codecZstd:
		return inside && b.stored > 0 && int(b.stored) < raw
	}
	return false
}

// extent is one stored block in file order.
type extent struct{ off, end, prevEnd uint64 }

// extents lists all stored blocks by offset; prevEnd is where the one before ends.
func extents(all []*section) []extent {
	var es []extent
	for _, s := range all {
		for _, b := range s.blocks {
			if b.stored > 0 {
				es = append(es, extent{off: b.off, end: b.off + uint64(b.stored)})
			}
		}
	}
	slices.SortFunc(es, func(a, b extent) int { return cmp.Compare(a.off, b.off) })
	for i := 1; i < len(es); i++ {
		es[i].prevEnd = es[i-1].end
	}
	return es
}
