package s3

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/gorun-mpi/gorun/cr/store"
)

// buffers is how many parts of a piece are in memory at once, being filled or sent.
const buffers = 4

// writer writes one piece.
type writer struct {
	s         *Store
	ctx       context.Context
	cancel    context.CancelFunc
	key, etag string // what is there, to be replaced; "": nothing
	tag       string

	mu      sync.Mutex
	changed sync.Cond // a part was sent, or could not be
	filling map[int64]*part
	spilled spill
	sent    map[int64]minio.CompletePart
	sending int
	top     int64 // the highest part that was written to
	upload  string
	free    [][]byte
	err     error // the first failure
	closed  bool
}

// part is one that is being filled.
type part struct {
	buf []byte
	n   int64 // bytes written
}

func newWriter(ctx context.Context, s *Store, key, etag string) *writer {
	w := &writer{s: s, key: key, etag: etag, tag: newTag(), filling: map[int64]*part{}, sent: map[int64]minio.CompletePart{}, top: -1}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.changed.L = &w.mu
	return w
}

// WriteAt copies p into the buffers of its parts, and waits while none is free.
func (w *writer) WriteAt(p []byte, off int64) (n int, err error) {
	size := w.s.cfg.Part
	w.mu.Lock()
	defer w.mu.Unlock()
	if off < 0 || (off+int64(len(p))-1)/size >= maxParts {
		return 0, w.s.fail(w.key, fmt.Errorf("a piece of more than %d parts of %d bytes: make the parts larger (part = %d)", maxParts, size, 4*size))
	}
	for n < len(p) {
		i, at := off/size, off%size
		k := int(min(int64(len(p)-n), size-at))
		if err := w.fill(i, at, p[n:n+k]); err != nil {
			return n, w.s.fail(w.key, err)
		}
		n, off = n+k, off+int64(k)
	}
	return n, nil
}

// fill writes into part i.
func (w *writer) fill(i, at int64, p []byte) error {
	pt, err := w.part(i)
	if err != nil {
		return err
	}
	if pt == nil {
		return w.spilled.write(i*w.s.cfg.Part+at, p)
	}
	copy(pt.buf[at:], p)
	pt.n += int64(len(p))
	if i > w.top {
		i, w.top = w.top, i // the part that was the highest may go
	}
	// Commit may cut the highest part, so it waits.
	if pt := w.filling[i]; i < w.top && pt != nil && pt.n >= w.s.cfg.Part {
		w.send(i, pt.buf)
	}
	return nil
}

// part returns the part i, nil if it waits in the file.
func (w *writer) part(i int64) (*part, error) {
	for {
		_, sent := w.sent[i]
		switch {
		case w.closed:
			return nil, store.ErrClosed
		case w.err != nil:
			return nil, w.err
		case sent:
			return nil, fmt.Errorf("part %d was written twice", i)
		case w.filling[i] != nil:
			return w.filling[i], nil
		case w.spilled.has(i):
			return nil, nil
		}
		buf, err := w.buffer()
		if err != nil {
			return nil, err
		}
		if buf != nil {
			w.filling[i] = &part{buf: buf}
			return w.filling[i], nil
		}
	}
}

// buffer returns a buffer of zeros. nil: it has waited, and things have changed.
func (w *writer) buffer() ([]byte, error) {
	switch {
	case len(w.free) > 0:
		buf := w.free[len(w.free)-1]
		w.free = w.free[:len(w.free)-1]
		clear(buf)
		return buf, nil
	case len(w.filling)+w.sending < buffers:
		return make([]byte, w.s.cfg.Part), nil
	case w.sending > 0:
		w.changed.Wait()
		return nil, nil
	}
	// None will become free by itself. The part that is furthest from where the writers are goes to the file.
	var first int64 = -1
	for i := range w.filling {
		if first < 0 || i < first {
			first = i
		}
	}
	pt := w.filling[first]
	if err := w.spilled.put(first, w.s.cfg.Part, pt.buf); err != nil {
		return nil, err
	}
	delete(w.filling, first)
	w.free = append(w.free, pt.buf)
	return nil, nil
}

// send sends a part in the background.
func (w *writer) send(i int64, p []byte) {
	delete(w.filling, i)
	w.sent[i] = minio.CompletePart{} // filled in below
	w.sending++
	go func() {
		done, err := w.put(i, p)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sending--
		w.free = append(w.free, p[:cap(p)])
		if err == nil {
			w.sent[i] = done
		} else if w.err == nil {
			w.err = err
			w.cancel()
		}
		w.changed.Broadcast()
	}()
}

// put uploads a part.
func (w *writer) put(i int64, p []byte) (minio.CompletePart, error) {
	id, err := w.begin()
	if err != nil {
		return minio.CompletePart{}, err
	}
	sum := sumText(p)
	opt := minio.PutObjectPartOptions{
		Sha256Hex: w.s.sha256(p), DisableContentSha256: true,
		CustomHeader: http.Header{"X-Amz-Checksum-Crc32c": {sum}},
	}
	var done minio.ObjectPart
	err = w.s.upload(w.ctx, p, func(body io.Reader) (err error) {
		done, err = w.s.core.PutObjectPart(w.ctx, w.s.cfg.Bucket, w.key, id, int(i)+1, body, int64(len(p)), opt)
		return err
	})
	return minio.CompletePart{PartNumber: int(i) + 1, ETag: done.ETag, ChecksumCRC32C: sum}, err
}

// begin begins the upload, once.
func (w *writer) begin() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.upload != "" || w.err != nil {
		return w.upload, w.err
	}
	opt := minio.PutObjectOptions{UserMetadata: map[string]string{tagKey: w.tag, "x-amz-checksum-algorithm": "CRC32C"}}
	w.err = w.s.again(w.ctx, func() (err error) {
		w.upload, err = w.s.core.NewMultipartUpload(w.ctx, w.s.cfg.Bucket, w.key, opt)
		return err
	})
	return w.upload, w.err
}

// Commit sends what is left, and has the server make an object of the parts.
func (w *writer) Commit(size int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.s.fail(w.key, store.ErrClosed)
	}
	err := w.commit(size)
	w.closed = true
	w.end(err != nil)
	return w.s.fail(w.key, err)
}

func (w *writer) commit(size int64) error {
	part := w.s.cfg.Part
	n := (size + part - 1) / part
	for i := range w.sent {
		if (i+1)*part > size {
			return fmt.Errorf("a piece of %d bytes cannot be cut from what was sent", size)
		}
	}
	if n > maxParts {
		return fmt.Errorf("%d bytes in parts of %d: at most %d", size, part, maxParts)
	}
	for i := range n {
		if _, sent := w.sent[i]; sent {
			continue
		}
		p, err := w.rest(i, min(part, size-i*part))
		if err != nil {
			return err
		}
		if n == 1 {
			return w.alone(p)
		}
		w.send(i, p)
	}
	if n == 0 {
		return w.alone(nil)
	}
	for w.sending > 0 {
		w.changed.Wait()
	}
	if w.err != nil {
		return w.err
	}
	return w.complete()
}

// rest returns the first n bytes of a part that was not sent. Unwritten bytes are zero.
func (w *writer) rest(i, n int64) ([]byte, error) {
	pt, err := w.part(i)
	if err != nil {
		return nil, err
	}
	if pt != nil {
		return pt.buf[:n], nil
	}
	var buf []byte
	for buf == nil {
		if buf, err = w.buffer(); err != nil {
			return nil, err
		}
		if w.err != nil {
			return nil, w.err
		}
	}
	return buf[:n], w.spilled.read(i*w.s.cfg.Part, buf[:n])
}

// alone writes a short piece at once.
func (w *writer) alone(p []byte) error {
	return w.s.put(w.ctx, w.key, p, w.tag, w.etag)
}

func (w *writer) complete() error {
	parts := make([]minio.CompletePart, 0, len(w.sent))
	for _, p := range w.sent {
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b minio.CompletePart) int { return a.PartNumber - b.PartNumber })
	_, err := w.s.core.CompleteMultipartUpload(w.ctx, w.s.cfg.Bucket, w.key, w.upload, parts, w.s.condition(w.etag))
	return w.s.own(w.ctx, w.key, w.tag, err)
}

// Abort gives up.
func (w *writer) Abort() error {
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	return w.end(true)
}

// end waits until nothing is sent any more. It takes an upload away that is to be given up; if it cannot, that goes
// with its set.
func (w *writer) end(giveUp bool) error {
	if giveUp {
		w.cancel()
	}
	for w.sending > 0 {
		w.changed.Wait()
	}
	w.cancel()
	w.spilled.close()
	w.filling, w.free = nil, nil
	if !giveUp || w.upload == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortWithin)
	defer cancel()
	return w.s.abort(ctx, w.key, w.upload)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumText is the CRC32C of p as the protocol writes it.
func sumText(p []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(p, castagnoli)))
}

// sha256 is the sum that is signed where no TLS protects what is sent.
func (s *Store) sha256(p []byte) string {
	if s.secure {
		return ""
	}
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:])
}
