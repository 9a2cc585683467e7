package stdio

import (
	"bytes"
	"fmt"
	"sync"
	"time"
)

// Output travels in whole lines from a rank's pipe through its agent to the head. An agent may have
// OutputWindow bytes on the way that the head has not written. Then it stops reading, and its ranks
// block in their writes, as with a slow reader behind an ordinary pipe.
const (
	OutputWindow = 1 << 20
	OutputChunk  = 32 << 10
	maxLine      = 256 << 10              // a longer line is passed on in pieces, or put on a tape
	LongestLine  = 64 << 20               // that is kept whole where several ranks print
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

// Take waits until n bytes may be sent; it returns false if they are not wanted any more.
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

// Open releases all waiters; bytes taken from then on are discarded.
func (w *Window) Open() {
	w.mu.Lock()
	w.ended = true
	w.cond.Broadcast()
	w.mu.Unlock()
}

// Splitter cuts a stream into pieces that end with whole lines. It passes a long line on in pieces,
// unless such lines are kept whole.
type Splitter struct {
	Buf  []byte
	Keep int64 // lines of up to this length are put on a tape, for Long; 0: none are
	on   *tape // the line that is being put on one; nil: it is short
	done *tape // a line that is to be passed on before what Feed and Rest return; nil: there is none
}

// Feed takes new bytes and returns those that can be passed on: all up to the last end of line. A
// carriage return counts as one, so that a progress display moves. The result is valid until the
// next call.
func (s *Splitter) Feed(p []byte) []byte {
	if s.on != nil {
		p = p[s.lengthen(p):]
	}
	s.Buf = append(s.Buf, p...)
	n := bytes.LastIndexAny(s.Buf, lineEnds) + 1
	if n == 0 && len(s.Buf) >= maxLine {
		if n = len(s.Buf); s.Keep > 0 && s.done == nil {
			s.on = &tape{}
			s.lengthen(s.take(n))
			return nil
		}
	}
	return s.take(n)
}

const lineEnds = "\n\r"

// lengthen puts the rest of the line on the tape, and returns its length.
func (s *Splitter) lengthen(p []byte) int {
	n := bytes.IndexAny(p, lineEnds) + 1
	whole := n > 0
	if !whole {
		n = len(p)
	}
	_ = s.on.write(p[:n]) // if the file fails the data stays in memory
	if whole || s.on.end >= s.Keep {
		s.on, s.done = nil, s.on
	}
	return n
}

// Rest returns the line that has not ended.
func (s *Splitter) Rest() []byte {
	if s.on != nil {
		s.on, s.done = nil, s.on
	}
	return s.take(len(s.Buf))
}

// HasLong says that there is a long line to be passed on.
func (s *Splitter) HasLong() bool { return s.done != nil }

// Long passes on a long line, if there is one, in pieces. More is true for all but the last. It is called after Feed and after Rest,
// before what these have returned is passed on.
func (s *Splitter) Long(pass func(piece []byte, more bool)) {
	t := s.done
	if t == nil {
		return
	}
	s.done = nil
	defer t.close()
	for t.from < t.end {
		buf := make([]byte, min(OutputChunk, t.end-t.from))
		n, err := t.read(buf, t.from)
		if err != nil {
			pass(fmt.Appendf(nil, "\n(gorun: %d bytes of this line are lost: %v)\n", t.end-t.from, err), false)
			return
		}
		t.from += int64(n)
		pass(buf[:n], t.from < t.end)
	}
}

func (s *Splitter) take(n int) []byte {
	out := bytes.Clone(s.Buf[:n])
	s.Buf = append(s.Buf[:0], s.Buf[n:]...)
	return out
}
