package image

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/gorun-mpi/gorun/cr/store"
)

// Reader reads an image. Opening checks header, meta, table and their digest;
// each block is checked when it is read. All methods may be called by several
// goroutines at once, except Close, which comes last.
type Reader struct {
	r        io.ReaderAt
	path     string
	closer   io.Closer
	size     int64
	meta     Meta
	version  int
	digest   [32]byte
	headEnd  uint64
	tableOff uint64
	sections []*section
	byName   map[[2]string]int

	zOnce sync.Once
	z     *zstd.Decoder
	zErr  error
	bufs  sync.Pool // *[]byte for stored blocks
}

// Open opens the image path.
func Open(path string) (*Reader, error) {
	f, err := store.OpenFile(path)
	if errors.Is(err, store.ErrNotRegular) {
		err = fail(ErrNotImage, "%w", store.ErrNotRegular)
	}
	if err != nil {
		return nil, &Error{Op: "read", Path: path, Err: err}
	}
	return OpenPiece(f, path)
}

// OpenPiece opens an image in a store; name is for errors. Close closes the piece, which is also closed after an error here.
func OpenPiece(piece store.Reader, name string) (*Reader, error) {
	r, err := NewReader(piece, piece.Size(), name)
	if err != nil {
		piece.Close()
		return nil, err
	}
	r.closer = piece
	return r, nil
}

// NewReader reads an image of size bytes from r; path is for errors.
func NewReader(r io.ReaderAt, size int64, path string) (*Reader, error) {
	img := &Reader{r: r, path: path, size: size}
	if err := img.load(); err != nil {
		return nil, &Error{Op: "read", Path: path, Err: err}
	}
	return img, nil
}

func (r *Reader) load() error {
	if r.size < 0 {
		return fail(ErrCorrupt, "%d bytes", r.size)
	}
	head := make([]byte, min(headerSize, r.size))
	if err := r.readAt(head, 0); err != nil {
		return err
	}
	h, err := decodeHeader(head)
	if err != nil {
		return err
	}
	headEnd := int64(headerSize) + int64(h.metaLen)
	if r.size < headEnd+trailSize {
		return fail(ErrTruncated, "%d bytes", r.size)
	}
	trail := make([]byte, trailSize)
	if err := r.readAt(trail, r.size-trailSize); err != nil {
		return err
	}
	t, err := decodeTrailer(trail, r.size, headEnd)
	if err != nil {
		return err
	}
	meta := make([]byte, h.metaLen)
	if err := r.readAt(meta, headerSize); err != nil {
		return err
	}
	table := make([]byte, t.tableLen)
	if err := r.readAt(table, int64(t.tableOff)); err != nil {
		return err
	}
	if d := digest(append(head, meta...), table); subtle.ConstantTimeCompare(d[:], t.digest[:]) == 0 {
		return fail(ErrCorrupt, "digest of meta and table")
	}
	if r.meta, err = decodeMeta(meta, h); err != nil {
		return err
	}
	r.sections, err = decodeTable(table, int(h.version), uint64(headEnd), t.tableOff)
	if err != nil {
		return err
	}
	r.version, r.digest, r.headEnd, r.tableOff = int(h.version), t.digest, uint64(headEnd), t.tableOff
	r.byName = make(map[[2]string]int, len(r.sections))
	for i, s := range r.sections {
		r.byName[[2]string{s.kind, s.name}] = i
	}
	return nil
}

// readAt fills p; a file that has become shorter since it was opened is truncated.
func (r *Reader) readAt(p []byte, off int64) error {
	n, err := r.r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fail(ErrTruncated, "%d bytes missing at %d", len(p)-n, off+int64(n))
	}
	return err
}

// Close closes the file, if Open opened it, or the piece.
func (r *Reader) Close() error {
	if r.z != nil {
		r.z.Close()
	}
	if r.closer != nil {
		return r.closer.Close()
	}
	return nil
}

// Meta tells whose image it is.
func (r *Reader) Meta() Meta { return r.meta }

// Version is the format's version in the header.
func (r *Reader) Version() int { return r.version }

// Digested reports whether Digest covers the blocks as well, which it does in what this version writes. Without that
// only damage by chance is sure to be found.
func (r *Reader) Digested() bool { return r.version >= versionDigests }

// Size is the length of the file in bytes.
func (r *Reader) Size() int64 { return r.size }

// Path is the name under which it was opened.
func (r *Reader) Path() string { return r.path }

// Digest is the SHA-256 over header, meta and table, in hex. The table has the SHA-256 of each block, see Digested.
func (r *Reader) Digest() string { return hex.EncodeToString(r.digest[:]) }

// Sections lists the sections in the order in which they were added.
func (r *Reader) Sections() []Section {
	all := make([]Section, len(r.sections))
	for i, s := range r.sections {
		all[i] = s.describe()
	}
	return all
}

// Lookup finds a section by kind and name.
func (r *Reader) Lookup(kind, name string) (Section, bool) {
	i, ok := r.byName[[2]string{kind, name}]
	if !ok {
		return Section{}, false
	}
	return r.sections[i].describe(), true
}

// ReadSection fills p, whose length is exactly the section's size, with the section's bytes in the order of the
// image. Several goroutines read and expand blocks. After an error the content of p is useless.
func (r *Reader) ReadSection(kind, name string, p []byte) error {
	i, ok := r.byName[[2]string{kind, name}]
	if !ok {
		return r.wrap(name, fail(ErrNoSection, "of kind %q", kind))
	}
	s := r.sections[i]
	if uint64(len(p)) != s.size {
		return r.wrap(name, fail(ErrTooLarge, "%d bytes asked for, it has %d", len(p), s.size))
	}
	return r.each([]*section{s}, func(s *section, b, n int) error {
		return r.readBlock(s, b, p[b*int(s.blockSize):][:n])
	})
}

// ReadRange fills p with the bytes of a section from off on, in the order of the image. It reads and checks the
// blocks in which they lie, and no others. Errors as of ReadSection: ErrTooLarge if the section ends before.
func (r *Reader) ReadRange(kind, name string, off uint64, p []byte) error {
	i, ok := r.byName[[2]string{kind, name}]
	if !ok {
		return r.wrap(name, fail(ErrNoSection, "of kind %q", kind))
	}
	s := r.sections[i]
	n := uint64(len(p))
	if off > s.size || n > s.size-off {
		return r.wrap(name, fail(ErrTooLarge, "%d bytes from byte %d on asked for, it has %d", n, off, s.size))
	}
	if n == 0 {
		return nil
	}
	size := uint64(s.blockSize)
	first, end := off/size, (off+n-1)/size+1
	part := *s
	part.blocks, part.size = s.blocks[first:end], min(s.size, end*size)-first*size
	return r.each([]*section{&part}, func(s *section, b, n int) error {
		at := int((first+uint64(b))*size) - int(off) // of the block in p
		if at >= 0 && at+n <= len(p) {
			return r.readBlock(s, b, p[at:at+n])
		}
		whole := r.buffer(n)
		defer r.bufs.Put(whole)
		if err := r.readBlock(s, b, *whole); err != nil {
			return err
		}
		copy(p[max(at, 0):], (*whole)[max(-at, 0):])
		return nil
	})
}

// each calls f for every block of the sections, from several goroutines; n is the block's length. It returns
// the first error, with the section's name.
func (r *Reader) each(sections []*section, f func(s *section, b, n int) error) error {
	total := 0
	for _, s := range sections {
		total += len(s.blocks)
	}
	var next atomic.Int64
	var first atomic.Pointer[Error]
	var wg sync.WaitGroup
	// Each goroutine walks the same list and takes what its ticket says.
	walk := func() {
		ticket := int(next.Add(1)) - 1
		base := 0
		for _, s := range sections {
			for ticket < base+len(s.blocks) {
				b := ticket - base
				if first.Load() != nil {
					return
				}
				if err := f(s, b, s.rawLen(b)); err != nil {
					first.CompareAndSwap(nil, r.wrap(s.name, err))
					return
				}
				ticket = int(next.Add(1)) - 1
			}
			base += len(s.blocks)
		}
	}
	for range min(runtime.GOMAXPROCS(0), total) - 1 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			walk()
		}()
	}
	walk()
	wg.Wait()
	if e := first.Load(); e != nil {
		return e
	}
	return nil
}

// readBlock reads block i of s into raw and checks it.
func (r *Reader) readBlock(s *section, i int, raw []byte) error {
	b := s.blocks[i]
	switch b.codec {
	case codecZero:
		clear(raw)
		return nil
	case codecNone:
		if err := r.readAt(raw, int64(b.off)); err != nil {
			return err
		}
		return r.checkStored(b, i, raw)
	}
	stored := r.buffer(int(b.stored))
	defer r.bufs.Put(stored)
	if err := r.readAt(*stored, int64(b.off)); err != nil {
		return err
	}
	if err := r.checkStored(b, i, *stored); err != nil {
		return err
	}
	if b.codec == codecZstd {
		r.zOnce.Do(func() { r.z, r.zErr = newDecoder() })
		if r.zErr != nil {
			return r.zErr
		}
	}
	if err := decode(b.codec, r.z, *stored, raw); err != nil {
		return err
	}
	if checksum(raw) != b.sumRaw {
		return fail(ErrCorrupt, "checksum of block %d after expanding it", i)
	}
	return nil
}

// checkStored checks what the file has of block i, before anything is made of it. The digest tells all that the
// checksum does, which is what there is in images of version 1.
func (r *Reader) checkStored(b block, i int, p []byte) error {
	if r.Digested() {
		if sha256.Sum256(p) != b.digest {
			return fail(ErrCorrupt, "digest of block %d at byte %d", i, b.off)
		}
	} else if checksum(p) != b.sumStored {
		return fail(ErrCorrupt, "checksum of block %d at byte %d", i, b.off)
	}
	return nil
}

func (r *Reader) buffer(n int) *[]byte {
	p, _ := r.bufs.Get().(*[]byte)
	if p == nil || cap(*p) < n {
		q := make([]byte, n)
		return &q
	}
	*p = (*p)[:n]
	return p
}

// Prove reads all of an image, and says what is wrong with it if it is not the one with that digest. path is for errors, as with NewReader.
func Prove(r io.ReaderAt, size int64, path, digest string) error {
	img, err := NewReader(r, size, path)
	if err != nil {
		return err
	}
	if img.Digest() != digest {
		return fmt.Errorf("%w: digest %s instead of %s", ErrCorrupt, img.Digest(), digest)
	}
	return img.Verify()
}

// Verify reads the whole file and checks every byte of it, those between
// blocks included.
func (r *Reader) Verify() error {
	size := 0
	for _, s := range r.sections {
		size = max(size, int(s.blockSize))
	}
	pool := sync.Pool{New: func() any { p := make([]byte, size); return &p }}
	err := r.each(r.sections, func(s *section, b, n int) error {
		p := pool.Get().(*[]byte)
		defer pool.Put(p)
		return r.readBlock(s, b, (*p)[:n])
	})
	if err != nil {
		return err
	}
	at := r.headEnd
	for _, e := range append(extents(r.sections), extent{off: r.tableOff}) {
		if err := r.checkGap(at, e.off); err != nil {
			return r.wrap("", err)
		}
		at = e.end
	}
	return nil
}

// checkGap checks that the bytes from a to b are zero.
func (r *Reader) checkGap(a, b uint64) error {
	if b-a >= pageSize {
		return fail(ErrCorrupt, "%d bytes at %d belong to nothing", b-a, a)
	}
	p := make([]byte, b-a)
	if err := r.readAt(p, int64(a)); err != nil {
		return err
	}
	if !isZero(p) {
		return fail(ErrCorrupt, "bytes between blocks at %d", a)
	}
	return nil
}

// Verify opens and checks the image path and returns its meta.
func Verify(path string) (Meta, error) {
	r, err := Open(path)
	if err != nil {
		return Meta{}, err
	}
	defer r.Close()
	return r.meta, r.Verify()
}

func (r *Reader) wrap(name string, err error) *Error {
	return &Error{Op: "read", Path: filepath.Clean(r.path), Section: name, Err: err}
}
