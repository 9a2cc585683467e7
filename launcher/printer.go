package launcher

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// printer writes the ranks' output at the head, in one goroutine, so that the
// head's decisions never wait for a terminal. A reader may take its time, and the
// job's end waits for it, until somebody who wants the job to end is in a hurry.
type printer struct {
	dst [3]io.Writer // by stream: 1 standard output, 2 standard error
	tag bool

	mu      sync.Mutex
	cond    *sync.Cond
	waiting []printJob
	closed  bool
	done    chan struct{}

	open [3]int32 // rank whose unfinished line was written last, +1; 0 none
	err  error    // first failure to write

	hurried sync.Once
	busy    *printJob // is being written
	step    int       // counts what was
	turn    int       // counts writers: one that hangs is replaced
	stuck   [3]bool   // streams on which one hangs
	dropped [3]int    // bytes
}

type printJob struct {
	rank   int32 // -1: gorun itself
	stream int
	data   []byte
	credit func(n int) // the bytes were written
}

// unreadGrace is how long one who is in a hurry waits at least for a reader that
// reads nothing.
const unreadGrace = time.Second

func newPrinter(stdout, stderr io.Writer, tag bool) *printer {
	p := &printer{dst: [3]io.Writer{1: stdout, 2: stderr}, tag: tag, done: make(chan struct{})}
	p.cond = sync.NewCond(&p.mu)
	go p.run(0)
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
	p.waiting = append(p.waiting, j)
	p.cond.Signal()
	return true
}

// close waits until everything is written, or dropped, and returns the first error.
func (p *printer) close() error {
	p.mu.Lock()
	p.closed = true
	p.cond.Signal()
	p.mu.Unlock()
	<-p.done
	return p.err
}

// run writes until close, or until its write was given up.
func (p *printer) run(turn int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.waiting) == 0 && !p.closed {
			p.cond.Wait()
		}
		if len(p.waiting) == 0 {
			close(p.done)
			return
		}
		j := p.waiting[0]
		p.waiting[0] = printJob{} // it may be large
		p.waiting = p.waiting[1:]
		if p.stuck[j.stream] {
			p.drop(&j)
			continue
		}
		p.busy = &j
		p.mu.Unlock()
		err := p.write(j)
		p.mu.Lock()
		if p.turn != turn {
			return
		}
		p.busy = nil
		p.step++
		if p.err == nil {
			p.err = err
		}
		j.credit(len(j.data) + frameCost)
	}
}

// hurry has output dropped from now on for which nobody comes.
func (p *printer) hurry() { p.hurried.Do(func() { go p.watch(time.NewTicker(unreadGrace)) }) }

func (p *printer) watch(t *time.Ticker) {
	defer t.Stop()
	for last := -1; ; {
		select {
		case <-t.C:
			last = p.look(last)
		case <-p.done:
			return
		}
	}
}

// look gives up a write that was under way already when it was last called, and
// returned last.
func (p *printer) look(last int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy == nil {
		return -1
	}
	if p.step == last {
		p.stuck[p.busy.stream] = true
		p.drop(p.busy)
		p.busy = nil
		p.turn++
		go p.run(p.turn)
		return -1
	}
	return p.step
}

func (p *printer) drop(j *printJob) {
	p.dropped[j.stream] += len(j.data)
	j.credit(len(j.data) + frameCost)
}

// lastly writes a line to standard error after close. Where a reader has gone
// missing it may be this one, too.
func (p *printer) lastly(line string) {
	if p.stuck[2] {
		return
	}
	written := make(chan struct{})
	go func() {
		io.WriteString(p.dst[2], line)
		close(written)
	}()
	var limit <-chan time.Time
	if p.stuck[1] {
		limit = time.After(unreadGrace)
	}
	select {
	case <-written:
	case <-limit:
	}
}

// write puts whole lines out. A line that another rank's last piece left open is
// ended first, so that lines of two ranks never share one.
func (p *printer) write(j printJob) error {
	var out []byte
	if who := p.open[j.stream]; who != 0 && who != j.rank+1 {
		out = append(out, '\n')
		p.open[j.stream] = 0
	}
	if !p.tag || j.rank < 0 {
		out = append(out, j.data...)
	} else {
		out = p.tagged(out, j)
	}
	p.open[j.stream] = 0
	if last := j.data[len(j.data)-1]; last != '\n' {
		p.open[j.stream] = j.rank + 1
	}
	_, err := p.dst[j.stream].Write(out)
	return err
}

func (p *printer) tagged(out []byte, j printJob) []byte {
	for line := range bytes.SplitAfterSeq(j.data, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		if p.open[j.stream] == 0 {
			out = appendTag(out, j.rank)
		}
		p.open[j.stream] = 0
		out = append(out, line...)
	}
	return out
}
