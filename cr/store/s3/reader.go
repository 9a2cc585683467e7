package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/gorun-mpi/gorun/cr/store"
)

// How a piece is read.
const (
	leastSpan = 128 << 10 // bytes asked for at once where nothing tells that more is wanted
	ahead     = 4 << 20   // where it is read in order
	nearby    = 64 << 10  // how much may be left out in order
	keptSpans = 8         // in memory
)

// reader reads one piece. It keeps the spans that it has fetched last, and begins to fetch the next one where it is
// read in order.
type reader struct {
	s         *Store
	ctx       context.Context
	cancel    context.CancelFunc
	key, etag string
	size      int64

	mu    sync.Mutex
	spans []*span // the one used last is last
	work  sync.WaitGroup
	over  bool
}

// span is a range of the piece.
type span struct {
	off   int64
	p     []byte
	ready chan struct{} // closed when p or err is there
	err   error
}

func (s *span) end() int64 { return s.off + int64(len(s.p)) }

func newReader(ctx context.Context, s *Store, key string, info minio.ObjectInfo) *reader {
	r := &reader{s: s, key: key, etag: info.ETag, size: info.Size}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// Size is the piece's.
func (r *reader) Size() int64 { return r.size }

// Close gives up what is being fetched.
func (r *reader) Close() error {
	r.mu.Lock()
	r.over, r.spans = true, nil
	r.mu.Unlock()
	r.cancel()
	r.work.Wait()
	return nil
}

// ReadAt copies from spans.
func (r *reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, r.s.fail(r.key, fmt.Errorf("offset %d", off))
	}
	for n < len(p) {
		at := off + int64(n)
		if at >= r.size {
			return n, io.EOF
		}
		s, err := r.span(at, int64(len(p)-n))
		if err != nil {
			return n, err
		}
		<-s.ready
		if s.err != nil {
			r.drop(s)
			return n, r.s.fail(r.key, s.err)
		}
		n += copy(p[n:], s.p[at-s.off:])
	}
	return n, nil
}

// span returns the span that holds the offset, and begins to fetch it if need be.
func (r *reader) span(off, want int64) (*span, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, r.s.fail(r.key, store.ErrClosed)
	}
	before := false // what lies before it was read
	for i, s := range r.spans {
		if s.off <= off && off < s.end() {
			r.spans = append(slices.Delete(r.spans, i, i+1), s)
			if len(s.p) >= ahead {
				r.begin(s.end(), ahead)
			}
			return s, nil
		}
		before = before || s.end() <= off && off-s.end() < nearby
	}
	if before {
		s := r.begin(off, ahead)
		r.begin(s.end(), ahead)
		return s, nil
	}
	return r.begin(off, max(leastSpan, min(want, ahead))), nil
}

// begin begins to fetch a span, unless one begins there. It returns nil beyond the end.
func (r *reader) begin(off, n int64) *span {
	if n = min(n, r.size-off); n <= 0 {
		return nil
	}
	for _, s := range r.spans {
		if s.off <= off && off < s.end() {
			return s
		}
	}
	s := &span{off: off, p: make([]byte, n), ready: make(chan struct{})}
	if len(r.spans) >= keptSpans {
		r.spans = slices.Delete(r.spans, 0, 1)
	}
	r.spans = append(r.spans, s)
	r.work.Go(func() {
		defer close(s.ready)
		s.err = r.fetch(s.p, s.off)
	})
	return s
}

// drop forgets a span that could not be fetched, so that the next read tries again.
func (r *reader) drop(s *span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = slices.DeleteFunc(r.spans, func(o *span) bool { return o == s })
}

// fetch reads a range. The client tries again until an answer begins; where one breaks off, this asks for the rest.
func (r *reader) fetch(p []byte, off int64) error {
	for try, done := 1, 0; ; try++ {
		n, err := r.get(p[done:], off+int64(done))
		if done += n; done == len(p) {
			return nil
		}
		if n > 0 {
			try = 1
		}
		if !errors.Is(err, errBroken) || try >= r.s.cfg.tries {
			return err
		}
		if err := wait(r.ctx, try); err != nil {
			return err
		}
	}
}

func (r *reader) get(p []byte, off int64) (int, error) {
	var opt minio.GetObjectOptions
	if err := opt.SetRange(off, off+int64(len(p))-1); err != nil {
		return 0, err
	}
	if err := opt.SetMatchETag(r.etag); err != nil {
		return 0, err
	}
	body, _, _, err := r.s.core.GetObject(r.ctx, r.s.cfg.Bucket, r.key, opt)
	if err != nil {
		if minio.ToErrorResponse(err).Code == minio.PreconditionFailed {
			err = errors.New("it was replaced while it was read")
		}
		return 0, err
	}
	defer body.Close()
	n, err := io.ReadFull(body, p)
	if err != nil && r.ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errBroken, err)
	}
	return n, err
}
