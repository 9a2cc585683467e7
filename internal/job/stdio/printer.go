// Package stdio carries the standard input and output of ranks: agents read and feed
// pipes, the head prints and reads, windows bound what is between them.
package stdio

import (
	"bytes"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Printer writes the ranks' output at the head, outside its loop. So the head's decisions never
// wait for a terminal. Output appears in the order in which it was printed, even if one stream is
// read more slowly than the other. The end of the job waits for the readers, until Hurry is called
// because the user wants the job to end. Then neither stream waits for the other, or for a reader
// that is gone.
type Printer struct {
	tag bool
	// Files, if there are any, get the ranks' output. Gorun's own messages stay on its streams. It
	// is set before anything is printed.
	Files *Files

	mu      sync.Mutex
	cond    *sync.Cond // something below has changed
	Streams [3]stream  // 1 standard output, 2 standard error
	printed int        // jobs so far
	closed  bool
	hurried bool
	err     error         // first failure to write
	done    chan struct{} // closed when all is written or dropped after close
}

// stream is what one goroutine writes.
type stream struct {
	dst     io.Writer
	open    *unfinished // line on dst; shared if both streams end at one place
	long    int32       // 1 + the rank whose line comes in pieces, for which others wait; 0: none
	waiting []Piece
	busy    *Piece // is being written
	step    int    // counts pieces that were
	stuck   bool   // the writer hangs and was given up
	Dropped int    // bytes
}

// unfinished is a line that was written last and has no end yet.
type unfinished struct {
	rank   int32
	stream int // 0: there is none
}

// Piece is something to be printed.
type Piece struct {
	Rank   int32 // -1: gorun itself
	Stream int
	Data   []byte
	More   bool        // the line goes on in the next piece of this rank, which comes without waiting for other output
	Do     func()      // in place of Data: called when all that was printed before to this stream is written
	Credit func(n int) // the bytes were written
	number int         // in the order of printing
}

// unreadGrace is how long a user in a hurry waits at least for a reader that reads nothing.
const unreadGrace = time.Second

// Output is written in pieces. Each piece that is written shows that there is a reader. In a hurry
// the pieces are small, so that a slow reader is noticed, too.
const (
	printPiece   = OutputChunk
	hurriedPiece = 4 << 10 // when a little is read from a full pipe, it takes as much
)

// NewPrinter begins to print; tag puts the rank in front of each line.
func NewPrinter(stdout, stderr io.Writer, tag bool) *Printer {
	p := &Printer{tag: tag, Streams: [3]stream{1: {dst: stdout, open: new(unfinished)}, 2: {dst: stderr, open: new(unfinished)}}, done: make(chan struct{})}
	if oneFile(stdout, stderr) {
		p.Streams[2].open = p.Streams[1].open
	}
	p.cond = sync.NewCond(&p.mu)
	go p.run(&p.Streams[1], &p.Streams[2])
	go p.run(&p.Streams[2], &p.Streams[1])
	return p
}

// oneFile reports whether both streams end at one place: a terminal, as a rule, or a pipe after 2>&1.
func oneFile(a, b io.Writer) bool {
	var st [2]os.FileInfo
	for i, w := range []io.Writer{a, b} {
		f, ok := w.(*os.File)
		if !ok {
			return false
		}
		var err error
		if st[i], err = f.Stat(); err != nil {
			return false
		}
	}
	return os.SameFile(st[0], st[1])
}

// Print hands output over and never waits. The agents' windows bound the output under way. It
// reports false after Close.
func (p *Printer) Print(j Piece) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.printed++
	j.number = p.printed
	s := &p.Streams[j.Stream]
	if s.stuck {
		s.drop(&j)
		return true
	}
	s.waiting = append(s.waiting, j)
	p.cond.Broadcast()
	return true
}

// Close waits until everything is written, or dropped, and returns the first error.
func (p *Printer) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.cond.Broadcast()
	for p.Streams[1].pending() || p.Streams[2].pending() {
		p.cond.Wait()
	}
	close(p.done)
	return p.err
}

func (s *stream) pending() bool { return s.busy != nil || len(s.waiting) > 0 }

// first is the number of the job that is written next, or is being written.
func (s *stream) first() int {
	if s.busy != nil {
		return s.busy.number
	}
	if i := s.next(); i >= 0 {
		return s.waiting[i].number
	}
	return math.MaxInt
}

// next is the job that is written next, -1 if there is none: the oldest, of the rank whose line is not whole yet if there is one.
func (s *stream) next() int {
	return slices.IndexFunc(s.waiting, func(j Piece) bool { return s.long == 0 || j.Rank+1 == s.long })
}

// Release says that some ranks send no more: the rest of their lines is not waited for.
func (p *Printer) Release(ranks []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.Streams {
		if s := &p.Streams[i]; slices.Contains(ranks, int(s.long)-1) {
			s.long = 0
		}
	}
	p.cond.Broadcast()
}

// run writes a stream until close, or until its write was given up.
func (p *Printer) run(s, other *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !s.stuck {
		i := s.next()
		if i < 0 && p.closed && s.long != 0 {
			s.long = 0 // the rest of the line never came
			p.cond.Broadcast()
			continue
		}
		if i < 0 || !p.hurried && other.first() < s.first() {
			if p.closed && len(s.waiting) == 0 {
				return
			}
			p.cond.Wait()
			continue
		}
		j := s.waiting[i]
		if i == 0 {
			s.waiting[0] = Piece{} // it may be large
			s.waiting = s.waiting[1:]
		} else {
			s.waiting = slices.Delete(s.waiting, i, i+1)
		}
		s.busy = &j
		if s.long = 0; j.More && p.Files == nil {
			s.long = j.Rank + 1
		}
		var err error
		if j.Do != nil {
			p.mu.Unlock()
			j.Do()
			p.mu.Lock()
		} else {
			err = p.write(s, &j)
		}
		if s.stuck {
			return
		}
		s.busy = nil
		if p.err == nil {
			p.err = err
		}
		j.Credit(len(j.Data) + FrameCost)
		p.cond.Broadcast()
	}
}

// Hurry ends the waits of one stream for the other, and drops output that is not read.
func (p *Printer) Hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hurried {
		p.hurried = true
		p.cond.Broadcast()
		go p.watch()
	}
}

func (p *Printer) watch() {
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

// look gives up the streams that were being written at the last call and have not moved since;
// last is where they were.
func (p *Printer) look(last *[3]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.Streams {
		s := &p.Streams[i]
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

func (s *stream) drop(j *Piece) {
	s.Dropped += len(j.Data)
	j.Credit(len(j.Data) + FrameCost)
}

// Lastly writes a line to standard error after Close, and ends the line that a rank has left open.
// If the reader is gone, the line may be lost as well.
func (p *Printer) Lastly(line string) {
	errs := &p.Streams[2]
	if errs.stuck {
		return
	}
	if errs.open.stream != 0 {
		*errs.open = unfinished{}
		line = "\n" + line
	}
	written := make(chan struct{})
	go func() {
		io.WriteString(errs.dst, line)
		close(written)
	}()
	var limit <-chan time.Time
	if p.Streams[1].stuck {
		limit = time.After(unreadGrace)
	}
	select {
	case <-written:
	case <-limit:
	}
}

// write writes whole lines. If the last piece of another rank, or of the other stream, has left a
// line open, it ends that first: two ranks never share a line, nor do a rank's output, its errors
// and gorun's own words. It releases the lock meanwhile.
func (p *Printer) write(s *stream, j *Piece) error {
	var out []byte
	x := p.Files.of(j.Rank, j.Stream)
	own := unfinished{j.Rank, j.Stream}
	mid := *s.open == own
	switch {
	case x != nil:
		mid = x.mid
	case s.open.stream != 0 && !mid:
		out = append(out, '\n')
	}
	if !p.tag || j.Rank < 0 {
		out = append(out, j.Data...)
	} else {
		out = tagged(out, j, mid)
	}
	switch mid = j.Data[len(j.Data)-1] != '\n'; {
	case x != nil:
		x.mid = mid
	case mid:
		*s.open = own
	default:
		*s.open = unfinished{}
	}
	for len(out) > 0 && !s.stuck {
		n := printPiece
		if p.hurried {
			n = hurriedPiece
		}
		n = min(n, len(out))
		p.mu.Unlock()
		var err error
		if x != nil {
			p.Files.write(x, out[:n])
		} else {
			_, err = s.dst.Write(out[:n])
		}
		p.mu.Lock()
		if err != nil {
			return err
		}
		out = out[n:]
		s.step++
	}
	return nil
}

// tagged appends the lines of a piece with their tags. mid says that the first is the rest of a line.
func tagged(out []byte, j *Piece, mid bool) []byte {
	for line := range bytes.SplitAfterSeq(j.Data, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		if !mid {
			out = appendTag(out, j.Rank)
		}
		mid = false
		out = append(out, line...)
	}
	return out
}

func appendTag(out []byte, rank int32) []byte {
	out = append(out, '[')
	out = strconv.AppendInt(out, int64(rank), 10)
	return append(out, "] "...)
}
