package launcher

import (
	"bytes"
	"io"
	"math"
	"sync"
	"time"
)

// printer writes the ranks' output at the head, apart from its loop, so that the
// head's decisions never wait for a terminal. What is printed comes out in that
// order, also where one stream is read more slowly than the other, and the job's end
// waits for the readers, until somebody who wants the job to end is in a hurry.
// Then neither stream waits for the other, nor anybody for a reader who is gone.
type printer struct {
	tag bool

	mu      sync.Mutex
	cond    *sync.Cond // something below has changed
	streams [3]stream  // 1 standard output, 2 standard error
	printed int        // jobs so far
	closed  bool
	hurried bool
	err     error         // first failure to write
	done    chan struct{} // closed when all is written or dropped after close
}

// stream is what one goroutine writes.
type stream struct {
	dst     io.Writer
	open    int32 // rank whose unfinished line was written last, +1; 0 none. The writer's
	waiting []printJob
	busy    *printJob // is being written
	step    int       // counts pieces that were
	stuck   bool      // the writer hangs and was given up
	dropped int       // bytes
}

type printJob struct {
	rank   int32 // -1: gorun itself
	stream int
	data   []byte
	credit func(n int) // the bytes were written
	number int         // in the order of printing
}

// unreadGrace is how long one who is in a hurry waits at least for a reader that
// reads nothing.
const unreadGrace = time.Second

// Output is written in pieces: each that is through shows that somebody reads, who in
// a hurry need not be fast to show it.
const (
	printPiece   = outputChunk
	hurriedPiece = 4 << 10 // when a little is read from a full pipe, it takes as much
)

func newPrinter(stdout, stderr io.Writer, tag bool) *printer {
	p := &printer{tag: tag, streams: [3]stream{1: {dst: stdout}, 2: {dst: stderr}}, done: make(chan struct{})}
	p.cond = sync.NewCond(&p.mu)
	go p.run(&p.streams[1], &p.streams[2])
	go p.run(&p.streams[2], &p.streams[1])
	return p
}

// print hands output over; it never waits. What is under way is bounded by the
// agents' windows. False after close.
func (p *printer) print(j printJob) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.printed++
	j.number = p.printed
	s := &p.streams[j.stream]
	if s.stuck {
		s.drop(&j)
		return true
	}
	s.waiting = append(s.waiting, j)
	p.cond.Broadcast()
	return true
}

// close waits until everything is written, or dropped, and returns the first error.
func (p *printer) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.cond.Broadcast()
	for p.streams[1].pending() || p.streams[2].pending() {
		p.cond.Wait()
	}
	close(p.done)
	return p.err
}

func (s *stream) pending() bool { return s.busy != nil || len(s.waiting) > 0 }

// first is the number of the oldest job that is not written.
func (s *stream) first() int {
	switch {
	case s.busy != nil:
		return s.busy.number
	case len(s.waiting) > 0:
		return s.waiting[0].number
	}
	return math.MaxInt
}

// run writes a stream until close, or until its write was given up.
func (p *printer) run(s, other *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !s.stuck {
		if len(s.waiting) == 0 || !p.hurried && other.first() < s.first() {
			if p.closed && len(s.waiting) == 0 {
				return
			}
			p.cond.Wait()
			continue
		}
		j := s.waiting[0]
		s.waiting[0] = printJob{} // it may be large
		s.waiting = s.waiting[1:]
		s.busy = &j
		err := p.write(s, &j)
		if s.stuck {
			return
		}
		s.busy = nil
		if p.err == nil {
			p.err = err
		}
		j.credit(len(j.data) + frameCost)
		p.cond.Broadcast()
	}
}

// hurry has nobody wait any more for the other stream, and output dropped for which
// nobody comes.
func (p *printer) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hurried {
		p.hurried = true
		p.cond.Broadcast()
		go p.watch()
	}
}

func (p *printer) watch() {
	t := time.NewTicker(unreadGrace)
	defer t.Stop()
	for last := [3]int{1: -1, 2: -1}; ; {
		select {
		case <-t.C:
			p.look(&last)
		case <-p.done:
			return
		}
	}
}

// look gives up the streams that were being written already when it was last
// called, and are where they were: last is theirs.
func (p *printer) look(last *[3]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.streams {
		s := &p.streams[i]
		switch {
		case s.busy == nil:
			last[i] = -1
		case s.step != last[i]:
			last[i] = s.step
		default:
			s.giveUp()
			p.cond.Broadcast()
		}
	}
}

func (s *stream) giveUp() {
	s.stuck = true
	s.drop(s.busy)
	for i := range s.waiting {
		s.drop(&s.waiting[i])
	}
	s.busy, s.waiting = nil, nil
}

func (s *stream) drop(j *printJob) {
	s.dropped += len(j.data)
	j.credit(len(j.data) + frameCost)
}

// lastly writes a line to standard error after close. Where a reader has gone
// missing it may be this one, too.
func (p *printer) lastly(line string) {
	errs := &p.streams[2]
	if errs.stuck {
		return
	}
	written := make(chan struct{})
	go func() {
		io.WriteString(errs.dst, line)
		close(written)
	}()
	var limit <-chan time.Time
	if p.streams[1].stuck {
		limit = time.After(unreadGrace)
	}
	select {
	case <-written:
	case <-limit:
	}
}

// write puts whole lines out. A line that another rank's last piece left open is
// ended first, so that lines of two ranks never share one. It lets go of the lock
// meanwhile.
func (p *printer) write(s *stream, j *printJob) error {
	var out []byte
	if who := s.open; who != 0 && who != j.rank+1 {
		out = append(out, '\n')
		s.open = 0
	}
	if !p.tag || j.rank < 0 {
		out = append(out, j.data...)
	} else {
		out = s.tagged(out, j)
	}
	s.open = 0
	if last := j.data[len(j.data)-1]; last != '\n' {
		s.open = j.rank + 1
	}
	for len(out) > 0 && !s.stuck {
		n := printPiece
		if p.hurried {
			n = hurriedPiece
		}
		n = min(n, len(out))
		p.mu.Unlock()
		_, err := s.dst.Write(out[:n])
		p.mu.Lock()
		if err != nil {
			return err
		}
		out = out[n:]
		s.step++
	}
	return nil
}

func (s *stream) tagged(out []byte, j *printJob) []byte {
	for line := range bytes.SplitAfterSeq(j.data, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		if s.open == 0 {
			out = appendTag(out, j.rank)
		}
		s.open = 0
		out = append(out, line...)
	}
	return out
}
