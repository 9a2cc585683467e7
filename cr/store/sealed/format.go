package sealed

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	magic     = "gorunSE1"
	headSize  = 64
	saltSize  = 32
	blockSize = 64 << 10
	tagSize   = 16
	fullSize  = blockSize + tagSize
	endSize   = 8 + tagSize
)

// ErrSealed says that a piece is not what was sealed.
var ErrSealed = errors.New("it is not what was sealed here")

// box seals and opens the blocks of one piece.
type box struct {
	aead cipher.AEAD
	head [headSize]byte
	name string
}

// newHead makes the head of a piece.
func newHead(k *key, salt [saltSize]byte) (h [headSize]byte) {
	copy(h[:], magic)
	binary.BigEndian.PutUint32(h[8:], blockSize)
	copy(h[16:], k.id[:])
	copy(h[24:], salt[:])
	return h
}

// newBox makes the box of a piece with this head. Errors: ErrSealed, ErrKey.
func newBox(k *key, head [headSize]byte, name string) (*box, error) {
	h := head[:]
	switch {
	case !bytes.HasPrefix(h, []byte(magic[:7])):
		return nil, fmt.Errorf("%w: it is not sealed at all", ErrSealed)
	case h[7] != magic[7]:
		return nil, fmt.Errorf("%w: version %q, this gorun knows %q", ErrSealed, h[7], magic[7])
	case !bytes.Equal(h[16:24], k.id[:]):
		return nil, fmt.Errorf("%w %s: this was sealed with another key, whose fingerprint is %x; the file's is %x. Put the right file in its place; gorun key -fingerprint FILE tells which one that is",
			ErrKey, k.file, h[16:24], k.id)
	case binary.BigEndian.Uint32(h[8:]) != blockSize, binary.BigEndian.Uint32(h[12:]) != 0, binary.BigEndian.Uint64(h[56:]) != 0:
		return nil, fmt.Errorf("%w: its head is damaged", ErrSealed)
	}
	c, err := aes.NewCipher(k.derive(h[24:56], "gorun sealed piece", 32))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(c)
	if err != nil {
		return nil, err
	}
	return &box{aead, head, name}, nil
}

// nonce is that of a block; -1: of the end.
func nonce(i int64) (n [12]byte) {
	if i < 0 {
		return [12]byte(bytes.Repeat([]byte{0xff}, 12))
	}
	binary.BigEndian.PutUint64(n[4:], uint64(i))
	return n
}

func (b *box) data(n [12]byte) []byte {
	return append(append(append(make([]byte, 0, headSize+12+len(b.name)), b.head[:]...), n[:]...), b.name...)
}

// seal appends block i and its tag to dst.
func (b *box) seal(dst []byte, i int64, p []byte) []byte {
	n := nonce(i)
	return b.aead.Seal(dst, n[:], p, b.data(n))
}

// open puts what block i holds into dst, which has room for it.
func (b *box) open(dst []byte, i int64, p []byte) error {
	n := nonce(i)
	if _, err := b.aead.Open(dst[:0], n[:], p, b.data(n)); err != nil {
		return fmt.Errorf("%w: block %d was changed, or belongs elsewhere", ErrSealed, i)
	}
	return nil
}

// sealEnd is the end of a piece of n bytes.
func (b *box) sealEnd(n int64) []byte {
	return b.seal(nil, -1, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// openEnd reads the end of a piece that has so many bytes in all.
func (b *box) openEnd(end []byte, all int64) (int64, error) {
	n := nonce(-1)
	p, err := b.aead.Open(nil, n[:], end, b.data(n))
	if err != nil {
		return 0, fmt.Errorf("%w: its end was cut off or changed, or it is another piece's", ErrSealed)
	}
	size := binary.BigEndian.Uint64(p)
	if size > math.MaxInt64/2 || sealedSize(int64(size)) != all {
		return 0, fmt.Errorf("%w: %d bytes do not hold %d", ErrSealed, all, size)
	}
	return int64(size), nil
}

// sealedSize is how many bytes a piece of n bytes has when it is sealed.
func sealedSize(n int64) int64 {
	return headSize + n + (n+blockSize-1)/blockSize*tagSize + endSize
}

// openedSize is the inverse. It is 0 for what cannot be a sealed piece.
func openedSize(all int64) int64 {
	body := all - headSize - endSize
	if body <= tagSize {
		return 0
	}
	return body - (body+fullSize-1)/fullSize*tagSize
}
