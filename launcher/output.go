package launcher

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/oob"
)

// Output travels from a rank's pipe through its agent to the head in whole
// lines. An agent may have outputWindow bytes on the way that the head has not
// written; then it stops reading and its ranks block in their writes, as they
// would with a slow reader behind an ordinary pipe.
const (
	outputWindow = 1 << 20
	outputChunk  = 32 << 10
	maxLine      = 256 << 10              // a longer line is passed on in pieces
	frameCost    = 128                    // what a frame costs beside its data
	promptDelay  = 100 * time.Millisecond // on a terminal half a line shows after this
)

// window counts bytes that may still be sent.
type window struct {
	mu    sync.Mutex
	cond  *sync.Cond
	free  int
	ended bool
}

func newWindow(n int) *window {
	w := &window{free: n}
	w.cond = sync.NewCond(&w.mu)
	return w
}

// take waits until n bytes may be sent; false if nobody wants them any more.
func (w *window) take(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.free < n && !w.ended {
		w.cond.Wait()
	}
	w.free -= n
	return !w.ended
}

func (w *window) give(n int) {
	w.mu.Lock()
	w.free += n
	w.cond.Broadcast()
	w.mu.Unlock()
}

// open lets everybody go on; what they take is for nobody.
func (w *window) open() {
	w.mu.Lock()
	w.ended = true
	w.cond.Broadcast()
	w.mu.Unlock()
}

// splitter cuts a stream into pieces that end with whole lines.
type splitter struct {
	buf []byte
}

// feed takes the bytes that came and returns what can be passed on: everything
// up to the last end of line, where a carriage return counts as one so that a
// progress display moves. The result is valid until the next call.
func (s *splitter) feed(p []byte) []byte {
	s.buf = append(s.buf, p...)
	n := bytes.LastIndexAny(s.buf, "\n\r") + 1
	if n == 0 && len(s.buf) >= maxLine {
		n = len(s.buf)
	}
	return s.take(n)
}

// rest returns the line that has not ended.
func (s *splitter) rest() []byte { return s.take(len(s.buf)) }

func (s *splitter) take(n int) []byte {
	out := bytes.Clone(s.buf[:n])
	s.buf = append(s.buf[:0], s.buf[n:]...)
	return out
}

// copyOutput reads one output stream of a rank to its end.
func (a *agent) copyOutput(r *rankProc, stream int, f *os.File) {
	defer r.out.Done()
	defer f.Close()
	var lines splitter
	buf := make([]byte, outputChunk)
	emit := func(p []byte) {
		if len(p) > 0 && a.out.take(len(p)+frameCost) {
			a.head.send(oob.Msg{Kind: oob.Output, From: int32(r.rank), To: oob.Head, A: uint64(stream), Data: p})
		}
	}
	for {
		if a.order.Interactive {
			var t time.Time
			if len(lines.buf) > 0 {
				t = time.Now().Add(promptDelay)
			}
			f.SetReadDeadline(t)
		}
		n, err := f.Read(buf)
		emit(lines.feed(buf[:n]))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			emit(lines.rest())
			continue
		}
		if err != nil {
			emit(lines.rest())
			return
		}
	}
}
