package image

import (
	"bytes"
	"fmt"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
)

// Codec names a way to store blocks.
type Codec string

// The codecs. A block that a codec does not make at least a sixteenth smaller
// is stored as it is.
const (
	None   Codec = "none"
	Snappy Codec = "snappy" // fast, for integers and sparse data
	Zstd   Codec = "zstd"   // smaller, about a quarter as fast
)

// ParseCodec turns the name of a codec into one; "" is None.
func ParseCodec(name string) (Codec, error) {
	switch c := Codec(name); c {
	case "":
		return None, nil
	case None, Snappy, Zstd:
		return c, nil
	}
	return "", fmt.Errorf("unknown codec %q (none, snappy or zstd)", name)
}

// codecID is how a codec is written in the table.
type codecID uint8

const (
	codecNone   codecID = 0
	codecSnappy codecID = 1
	codecZstd   codecID = 2
	codecZero   codecID = 255 // all bytes zero, nothing stored
)

// encoder compresses blocks; each worker has its own.
type encoder struct {
	codec Codec
	z     *zstd.Encoder
}

func newEncoder(c Codec) (*encoder, error) {
	e := &encoder{codec: c}
	if c != Zstd {
		return e, nil
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20))
	e.z = z
	return e, err
}

// maxEncoded is the room that encode needs for a block of n bytes.
func maxEncoded(n int) int { return snappy.MaxEncodedLen(n) + pageSize }

// encode returns the bytes to store for raw and their codec; they are raw
// itself or lie in buf.
func (e *encoder) encode(raw, buf []byte) ([]byte, codecID) {
	var out []byte
	var id codecID
	switch e.codec {
	case Snappy:
		out, id = snappy.Encode(buf[:cap(buf)], raw), codecSnappy
	case Zstd:
		out, id = e.z.EncodeAll(raw, buf[:0]), codecZstd
	default:
		return raw, codecNone
	}
	if len(out) > len(raw)-len(raw)/16-1 {
		return raw, codecNone
	}
	return out, id
}

func (e *encoder) close() {
	if e.z != nil {
		e.z.Close()
	}
}

// decode expands stored into raw, which has exactly the block's length.
func decode(id codecID, z *zstd.Decoder, stored, raw []byte) error {
	var out []byte
	var err error
	switch id {
	case codecSnappy:
		if n, lenErr := snappy.DecodedLen(stored); lenErr != nil || n != len(raw) {
			return fail(ErrCorrupt, "length within a snappy block")
		}
		out, err = snappy.Decode(raw, stored)
	case codecZstd:
		out, err = z.DecodeAll(stored, raw[:0:len(raw)])
	default:
		return fail(ErrCorrupt, "codec %d", id)
	}
	if err != nil {
		return fail(ErrCorrupt, "%v", err)
	}
	if len(out) != len(raw) {
		return fail(ErrCorrupt, "block of %d bytes expands to %d", len(raw), len(out))
	}
	if len(raw) > 0 && &out[0] != &raw[0] {
		copy(raw, out)
	}
	return nil
}

func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(4*maxBlock),
		zstd.WithDecoderMaxWindow(maxBlock))
}

var zeros [64 << 10]byte

func isZero(p []byte) bool {
	for len(p) > len(zeros) {
		if !bytes.Equal(p[:len(zeros)], zeros[:]) {
			return false
		}
		p = p[len(zeros):]
	}
	return bytes.Equal(p, zeros[:len(p)])
}
