package parity

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/storage/erasure"
)

// Group is images of one set that are protected together.
type Group struct {
	Set    string   `json:"set"`
	Shards int      `json:"shards"`
	Images []Member `json:"images"`
}

// Member is an image of a group.
type Member struct {
	Piece  string `json:"piece"`
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
}

// header describes a shard.
type header struct {
	Group
	Shard int `json:"shard"`
}

const (
	prefix, suffix = "parity-", ".par"

	block     = 1 << 20 // of data that has a sum
	magic     = "gorun-parity-1\n\x00"
	tailSize  = len(magic) + 8 + sha256.Size
	maxHeader = 1 << 20
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// IsShard reports whether a piece is a shard by its name.
func IsShard(piece string) bool {
	return strings.HasPrefix(piece, prefix) && strings.HasSuffix(piece, suffix)
}

// Name is that of a shard's piece.
func (g *Group) Name(shard int) string {
	return fmt.Sprintf("%s%s-%d%s", prefix, g.id(), shard, suffix)
}

// groupOf is the common part of the names of all shards of a group.
func groupOf(piece string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(piece, prefix), "-")
	return id
}

// id tells groups apart.
func (g *Group) id() string {
	p, err := json.Marshal(g)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:12])
}

// Size is about how many bytes a shard of the group has.
func (g *Group) Size() int64 {
	n := g.longest()
	return n + 4*blocks(n) + 4096
}

func (g *Group) longest() (n int64) {
	for _, m := range g.Images {
		n = max(n, m.Size)
	}
	return n
}

func blocks(size int64) int64 { return (size + block - 1) / block }

// check refuses an impossible group.
func (g *Group) check() error {
	if err := store.CheckSet(g.Set); err != nil {
		return err
	}
	if n := len(g.Images); n < 1 || g.Shards < 1 || n+g.Shards > 256 {
		return fmt.Errorf("a group of %d images and %d shards", n, g.Shards)
	}
	for _, m := range g.Images {
		if err := store.CheckPiece(m.Piece); err != nil {
			return err
		}
		if m.Size < 0 || m.Size > math.MaxInt64/2 {
			return fmt.Errorf("image %s has %d bytes", m.Piece, m.Size)
		}
	}
	return nil
}

// Write computes a shard of a group's images and writes it. It returns its size.
func Write(ctx context.Context, w io.WriterAt, g *Group, shard int, images []io.ReaderAt) (size int64, err error) {
	if err := g.check(); err != nil {
		return 0, err
	}
	code, err := erasure.New(len(g.Images), g.Shards)
	if err != nil {
		return 0, err
	}
	var from []erasure.Source
	for i, r := range images {
		from = append(from, erasure.Source{ReaderAt: r, Size: g.Images[i].Size})
	}
	s := &sums{w: w}
	if err := code.Shard(ctx, shard, from, s.add); err != nil {
		return 0, err
	}
	head, err := json.Marshal(header{*g, shard})
	if err != nil {
		return 0, err
	}
	end := append(s.end(), head...)
	sum := sha256.Sum256(end)
	end = append(end, magic...)
	end = le.AppendUint64(end, uint64(len(head)))
	end = append(end, sum[:]...)
	if _, err := w.WriteAt(end, s.at); err != nil {
		return 0, err
	}
	return s.at + int64(len(end)), nil
}

// sums writes data in order and sums it by blocks.
type sums struct {
	w   io.WriterAt
	at  int64
	sum uint32
	all []byte
}

func (s *sums) add(p []byte) error {
	if _, err := s.w.WriteAt(p, s.at); err != nil {
		return err
	}
	for len(p) > 0 {
		n := min(int(block-s.at%block), len(p))
		s.sum = crc32.Update(s.sum, castagnoli, p[:n])
		s.at += int64(n)
		p = p[n:]
		if s.at%block == 0 {
			s.all = le.AppendUint32(s.all, s.sum)
			s.sum = 0
		}
	}
	return nil
}

func (s *sums) end() []byte {
	if s.at%block != 0 {
		s.all = le.AppendUint32(s.all, s.sum)
	}
	return s.all
}

// Shard is a shard that is open.
type Shard struct {
	Group
	Number int

	r      io.ReaderAt
	data   int64
	sums   []byte
	digest string
}

// Open reads the header of a shard, and none of its data. The error is image.ErrCorrupt if it is
// not a shard, or damaged.
func Open(r io.ReaderAt, size int64) (*Shard, error) {
	tail, err := read(r, size-int64(tailSize), int64(tailSize))
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(tail, []byte(magic)) {
		return nil, fmt.Errorf("%w: no shard", image.ErrCorrupt)
	}
	length, want := le.Uint64(tail[len(magic):]), tail[len(magic)+8:]
	if length > maxHeader {
		return nil, fmt.Errorf("%w: a header of %d bytes", image.ErrCorrupt, length)
	}
	end := size - int64(tailSize)
	text, err := read(r, end-int64(length), int64(length))
	if err != nil {
		return nil, err
	}
	var h header
	if err := cmp.Or(json.Unmarshal(text, &h), h.check()); err != nil {
		return nil, fmt.Errorf("%w: %w", image.ErrCorrupt, err)
	}
	s := &Shard{Group: h.Group, Number: h.Shard, r: r, data: h.longest(), digest: hex.EncodeToString(want)}
	n := 4 * blocks(s.data)
	if h.Shard < 0 || h.Shard >= h.Shards || s.data+n+int64(length) != end {
		return nil, fmt.Errorf("%w: its header does not fit its size", image.ErrCorrupt)
	}
	if s.sums, err = read(r, s.data, n); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(append(bytes.Clone(s.sums), text...)); !bytes.Equal(sum[:], want) {
		return nil, fmt.Errorf("%w: its header is damaged", image.ErrCorrupt)
	}
	return s, nil
}

// read reads all of a range.
func read(r io.ReaderAt, off, n int64) ([]byte, error) {
	if off < 0 {
		return nil, fmt.Errorf("%w: too short", image.ErrCorrupt)
	}
	p := make([]byte, n)
	if got, err := r.ReadAt(p, off); got < len(p) {
		if err == nil || errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: too short", image.ErrCorrupt)
		}
		return nil, err
	}
	return p, nil
}

// Verify reads the data and compares its sums.
func (s *Shard) Verify(ctx context.Context) error {
	p := make([]byte, min(block, s.data))
	for at := int64(0); at < s.data; at += block {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		p = p[:min(block, s.data-at)]
		if n, err := s.r.ReadAt(p, at); n < len(p) {
			return cmp.Or(err, io.ErrUnexpectedEOF)
		}
		if crc32.Checksum(p, castagnoli) != le.Uint32(s.sums[at/block*4:]) {
			return fmt.Errorf("%w: the block of the shard at %d", image.ErrCorrupt, at)
		}
	}
	return nil
}

// Check checks a shard where it lies, as images are checked. A shard of another set is corrupt.
func Check(ctx context.Context, st store.Reading, set, piece string, whole bool) (size int64, digest string, err error) {
	r, err := st.Open(ctx, set, piece)
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	s, err := openAs(r, set, piece)
	if err == nil && whole {
		err = s.Verify(ctx)
	}
	if err != nil {
		return 0, "", fmt.Errorf("%s/%s: %w", set, piece, err)
	}
	return r.Size(), s.digest, nil
}

// openAs opens a shard that must belong to a set and have this name.
func openAs(r store.Reader, set, piece string) (*Shard, error) {
	s, err := Open(r, r.Size())
	if err == nil && (s.Set != set || s.Name(s.Number) != piece) {
		err = fmt.Errorf("%w: it is shard %d of a group of set %s", image.ErrCorrupt, s.Number, s.Set)
	}
	return s, err
}
