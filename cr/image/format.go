// Package image is the file that holds one rank's part of a snapshot. The file is versioned and describes
// itself. A reader needs this package alone to list what an image holds, to check it, and to take single
// variables out of it.
//
//	+--------------------+ 0
//	| header   32 bytes  |  magic, version, byte order of the payload, length
//	|                    |  and CRC32C of meta
//	| meta     JSON      |  Meta: job, rank, sequence, architecture, ...
//	+--------------------+ 4096 x n
//	| blocks             |  in the order in which they were finished; large ones
//	|                    |  begin at multiples of 4096, small ones are packed;
//	|                    |  bytes between blocks are zero
//	+--------------------+ 4096 x m
//	| table              |  all sections: name, kind, type, size, their blocks
//	| trailer  64 bytes  |  where the table is, SHA-256, file size, magic
//	+--------------------+ end of file
//
//	header                                  trailer
//	 0 magic    8  "\x89gorun\r\n"           0 table offset u64
//	 8 version  u16                          8 table length u64
//	10 order    u8 'l' little, 'b' big      16 digest  32  SHA-256 of header, meta, table
//	11 zero     u8                          48 file size u64
//	12 meta length u32                      56 CRC32C of the 56 bytes before, u32
//	16 meta CRC32C u32                      60 magic "end\n"
//	20 zero  8
//	28 CRC32C of the 28 bytes before
//
//	table                                   block, 56 bytes
//	 section count u32, then each:           0 offset u64   0 for a zero block
//	 name, kind    u16 length, bytes         8 stored u32   bytes in the file
//	 type          u32 length, bytes        12 CRC32C of the stored bytes
//	 size       u64  bytes when read        16 CRC32C of the bytes when read
//	 block size u32                         20 codec u8, zero x3
//	 block count u32, then blocks           24 SHA-256 of the stored bytes; zeros for a zero block
//
// The digest of the trailer covers the table, and so every byte of the blocks: who knows it can tell that image from
// any other. Version 1 had no SHA-256 of blocks, only the 24 bytes before it: there a block whose sums were mended
// is taken for the one that was written.
//
// Every number of the container is little-endian. The payload of the sections is in the order that the header
// names. A section is a run of bytes cut into blocks of one size; the last block may be shorter. Each block is
// stored by itself: as it is, or compressed. A block of zeros is not stored at all.
//
// The writer of a section gives its kind and type their meaning. Package cr/self documents what portable images
// hold.
//
// An image is written under a name that ends in ".part". It gets its own name when it is complete and on the
// disk. So the name tells that an image is half-written.
package image

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/gorun-mpi/gorun/cr/store"
)

// Version is the format written by this package; it reads 1 to Version.
const Version = 2

// versionDigests is the first one whose blocks have a SHA-256.
const versionDigests = 2

// PartSuffix ends the names of images that are being written, or whose writer
// was killed.
const PartSuffix = store.PartSuffix

const (
	magic      = "\x89gorun\r\n"
	endMagic   = "end\n"
	headerSize = 32
	trailSize  = 64
	blockEntry = 56
	oldEntry   = 24   // of version 1
	pageSize   = 4096 // alignment of large blocks, of the table and of direct writes

	orderLittle = 'l'
	orderBig    = 'b'
)

// Caps on what a reader accepts. They keep a damaged or forged file from making it allocate more than a small
// multiple of the file's own size.
const (
	maxMeta     = 64 << 20
	maxTable    = 1 << 30
	maxName     = 4096
	maxKind     = 64
	maxType     = 64 << 10
	maxSections = 1 << 24
	maxSize     = 1 << 44 // bytes of one section
	minBlock    = 4096
	maxBlock    = 16 << 20
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

func alignUp(n int64) int64 { return (n + pageSize - 1) &^ (pageSize - 1) }

// header is the fixed part at the start of the file.
type header struct {
	version   uint16
	bigEndian bool
	metaLen   uint32
	metaSum   uint32
}

func (h header) encode() []byte {
	p := make([]byte, headerSize)
	copy(p, magic)
	le.PutUint16(p[8:], h.version)
	p[10] = orderLittle
	if h.bigEndian {
		p[10] = orderBig
	}
	le.PutUint32(p[12:], h.metaLen)
	le.PutUint32(p[16:], h.metaSum)
	le.PutUint32(p[28:], checksum(p[:28]))
	return p
}

// decodeHeader tells by the magic whether p begins an image at all. It tells by the version whether it can read
// the image. Only then does it trust the rest.
func decodeHeader(p []byte) (header, error) {
	if len(p) < len(magic) || string(p[:len(magic)]) != magic {
		if len(p) < len(magic) && string(p) == magic[:len(p)] {
			return header{}, fail(ErrTruncated, "%d bytes, the header has %d", len(p), headerSize)
		}
		return header{}, fail(ErrNotImage, "it does not begin with the magic of an image")
	}
	if len(p) < headerSize {
		return header{}, fail(ErrTruncated, "%d bytes, the header has %d", len(p), headerSize)
	}
	// A header of another version may look different from here on, but a damaged version number should be
	// called damage.
	sumOK := le.Uint32(p[28:]) == checksum(p[:28])
	h := header{version: le.Uint16(p[8:]), metaLen: le.Uint32(p[12:]), metaSum: le.Uint32(p[16:])}
	if h.version > Version && sumOK {
		return header{}, fail(ErrVersion, "format %d, this library reads up to %d: use the newer gorun that wrote it", h.version, Version)
	}
	if !sumOK {
		return header{}, fail(ErrCorrupt, "checksum of the header")
	}
	switch p[10] {
	case orderLittle:
	case orderBig:
		h.bigEndian = true
	default:
		return header{}, fail(ErrCorrupt, "byte order %#x", p[10])
	}
	if h.version == 0 || p[11] != 0 || le.Uint64(p[20:]) != 0 {
		return header{}, fail(ErrCorrupt, "reserved bytes of the header")
	}
	if h.metaLen > maxMeta {
		return header{}, fail(ErrTooLarge, "meta of %d bytes, at most %d", h.metaLen, maxMeta)
	}
	return h, nil
}

// trailer is the fixed part at the end of the file.
type trailer struct {
	tableOff, tableLen uint64
	digest             [32]byte
	fileSize           uint64
}

func (t trailer) encode() []byte {
	p := make([]byte, trailSize)
	le.PutUint64(p, t.tableOff)
	le.PutUint64(p[8:], t.tableLen)
	copy(p[16:], t.digest[:])
	le.PutUint64(p[48:], t.fileSize)
	le.PutUint32(p[56:], checksum(p[:56]))
	copy(p[60:], endMagic)
	return p
}

// decodeTrailer reads the last bytes of a file of the given size whose header
// and meta end at headEnd.
func decodeTrailer(p []byte, size, headEnd int64) (trailer, error) {
	if string(p[60:]) != endMagic {
		return trailer{}, fail(ErrTruncated, "the end mark is missing at byte %d", size)
	}
	if le.Uint32(p[56:]) != checksum(p[:56]) {
		return trailer{}, fail(ErrCorrupt, "checksum of the trailer")
	}
	t := trailer{tableOff: le.Uint64(p), tableLen: le.Uint64(p[8:]), fileSize: le.Uint64(p[48:])}
	copy(t.digest[:], p[16:])
	switch {
	case t.fileSize != uint64(size):
		return trailer{}, fail(ErrTruncated, "%d bytes, %d were written", size, t.fileSize)
	case t.tableLen > maxTable:
		return trailer{}, fail(ErrTooLarge, "table of %d bytes, at most %d", t.tableLen, maxTable)
	case t.tableOff < uint64(headEnd), t.tableOff > uint64(size), t.tableOff+t.tableLen+trailSize != uint64(size):
		return trailer{}, fail(ErrCorrupt, "table at %d with %d bytes does not end the file of %d", t.tableOff, t.tableLen, size)
	}
	return t, nil
}
