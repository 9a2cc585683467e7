package stdio

import (
	"bytes"
	"sync"
	"time"
)

// Output travels in whole lines from a rank's pipe through its agent to the head. An agent may have
// outputWindow bytes on the way that the head has not written. Then it stops reading, and its ranks
// block in their writes, as with a slow reader behind an ordinary pipe.
const (
	OutputWindow = 1 << 20
	OutputChunk  = 32 << 10
	maxLine      = 256 << 10              // a longer line is passed on in pieces
	FrameCost    = 128                    // what a frame costs beside its data
	PromptDelay  = 100 * time.Millisecond // on a terminal half a line shows after this
)

// Window counts bytes that may still be sent.
type Window struct {
	mu    sync.Mutex
	cond  *sync.Cond
	free  int
	ended bool
}

// NewWindow returns a window of n bytes.
func NewWindow(n int) *Window {
	w := &Window{free: n}
	w.cond = sync.NewCond(&w.mu)
	return w
}

// Take waits until n bytes may be sent; false if nobody wants them any more.
func (w *Window) Take(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.free < n && !w.ended {
		w.cond.Wait()
	}
	w.free -= n
	return !w.ended
}

// Give lets n bytes more be sent.
func (w *Window) Give(n int) {
	w.mu.Lock()
	w.free += n
	w.cond.Broadcast()
	w.mu.Unlock()
}

// Open lets everybody go on; what they take is for nobody.
func (w *Window) Open() {
	w.mu.Lock()
	w.ended = true
	w.cond.Broadcast()
	w.mu.Unlock()
}

// Splitter cuts a stream into pieces that end with whole lines.
type Splitter struct {
	Buf []byte
}

// Feed takes the bytes that came and returns what can be passed on: all up to the last end of line.
// A carriage return counts as one, so that a progress display moves. The result is valid until the
// next call.
func (s *Splitter) Feed(p []byte) []byte {
	s.Buf = append(s.Buf, p...)
	n := bytes.LastIndexAny(s.Buf, "\n\r") + 1
	if n == 0 && len(s.Buf) >= maxLine {
		n = len(s.Buf)
	}
	return s.take(n)
}

// Rest returns the line that has not ended.
func (s *Splitter) Rest() []byte { return s.take(len(s.Buf)) }

func (s *Splitter) take(n int) []byte {
	out := bytes.Clone(s.Buf[:n])
	s.Buf = append(s.Buf[:0], s.Buf[n:]...)
	return out
}
