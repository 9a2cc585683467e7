package stdio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// Standard input travels in Input frames to the agent of rank 0, at most
// inputWindow bytes ahead of what the rank's pipe has taken; an Input frame
// without data is its end. The agent answers with an Input whose A is the
// number of bytes that the pipe took.
const (
	inputWindow = 256 << 10
	inputChunk  = 32 << 10
)

// Pump reads the head's standard input once for the life of the job, and gives each incarnation the
// spans of its script. It keeps on a tape the data that a restart may need again. A regular file
// needs no tape: it is read again.
type Pump struct {
	src  io.Reader
	file *os.File // src if it is a regular file, else nil
	base int64    // its offset at the start

	mu   sync.Mutex
	cond *sync.Cond
	tape tape
	over bool  // src has ended
	keep int64 // offset from which a restart may need the input
	near int64 // number of fed bytes that are kept in any case
	lost error // why nothing is kept for a restart; nil: it is

	life int          // counts attach
	left Script       // what the present incarnation has yet to get
	sink func([]byte) // gives the incarnation its input; nil: there is none, or it was told the end
	free *Window      // bytes that may still be sent to the incarnation

	failed func(error) // is called with an error of the input
}

// NewPump begins to feed the attached incarnation.
func NewPump(src io.Reader, failed func(error)) *Pump {
	p := &Pump{src: src, left: WholeInput(), free: NewWindow(inputWindow), failed: failed}
	p.cond = sync.NewCond(&p.mu)
	if f, ok := src.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			if at, err := f.Seek(0, io.SeekCurrent); err == nil {
				p.file, p.base = f, at
			}
		}
	}
	go p.feed()
	return p
}

// Attach directs input to another incarnation, from the beginning of its script.
func (p *Pump) Attach(s Script, sink func([]byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life++
	p.left, p.sink = s, sink
	p.free.Open()
	p.free = NewWindow(inputWindow)
	p.cond.Broadcast()
}

// Give returns n bytes of the window: the rank's pipe has taken them.
func (p *Pump) Give(n int) {
	p.mu.Lock()
	w := p.free
	p.mu.Unlock()
	w.Give(n)
}

// KeepFrom sets the offset from which a restart may need the input. With rest no restart needs any.
func (p *Pump) KeepFrom(off int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep = off
	p.forget()
}

// KeepNear keeps the input that was fed last, even if no restart needs it: as much as rank 0 may
// not have taken yet. Another process of that rank may need it.
func (p *Pump) KeepNear() {
	p.mu.Lock()
	p.near = inputWindow + inputChunk + pipeRoom
	p.mu.Unlock()
}

// pipeRoom is what a pipe holds at most, unless a privileged program makes it larger.
const pipeRoom = 1 << 20

// forget releases input that is not needed any more.
func (p *Pump) forget() {
	off := p.left.Begins() - p.near
	if p.lost == nil {
		off = min(off, p.keep)
	}
	p.tape.forget(off)
}

// Can says why a life cannot be given a script, nil if it can.
func (p *Pump) Can(s Script) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch from := s.Begins(); {
	case p.file != nil || from >= p.tape.from:
		return nil
	case p.lost != nil:
		return fmt.Errorf("what rank 0 has read of standard input is not kept: %w", p.lost)
	default:
		return fmt.Errorf("rank 0 has read standard input, of which the first %d bytes are not kept: there were newer snapshots, which did not need them", p.tape.from)
	}
}

// Run reads a stream to its end, never much further than it was fed. It runs in a goroutine of its
// own. It is never waited for: a read of a terminal cannot be interrupted.
func (p *Pump) Run(resume <-chan os.Signal) {
	if p.file != nil {
		return // next reads it
	}
	buf := make([]byte, inputChunk)
	for {
		n, err := p.src.Read(buf)
		if n > 0 {
			p.record(buf[:n])
		}
		// A job in the background must not read its terminal. SIGTTIN is ignored, so the read fails.
		// It is tried again when the job is continued.
		if errors.Is(err, syscall.EIO) && resume != nil {
			<-resume
			continue
		}
		if err != nil {
			p.mu.Lock()
			p.over = true
			p.cond.Broadcast()
			p.mu.Unlock()
			return
		}
	}
}

// record takes what was read, and returns when most of it was fed.
func (p *Pump) record(data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.tape.write(data); err != nil {
		p.lost = err
		p.forget()
		go p.failed(fmt.Errorf("what rank 0 reads of standard input cannot be kept, a restart will be refused: %w", err))
	}
	p.cond.Broadcast()
	for p.tape.end-p.left[len(p.left)-1].From > inputWindow {
		p.cond.Wait()
	}
}

// feed gives the present incarnation its input. It never returns.
func (p *Pump) feed() {
	buf := make([]byte, inputChunk)
	for {
		data, life, w := p.next(buf)
		w.Take(len(data))
		p.pass(data, life)
	}
}

// next waits for the next span to give, and returns it with its receiver.
func (p *Pump) next(buf []byte) (data []byte, life int, w *Window) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.sink == nil {
			p.cond.Wait()
			continue
		}
		at := p.left[0]
		n, err := p.read(buf[:min(inputChunk, at.To-at.From)], at.From)
		switch {
		case n > 0:
			return append([]byte(nil), buf[:n]...), p.life, p.free
		case err == nil:
			p.cond.Wait()
		default:
			if err != io.EOF {
				go p.failed(err)
			}
			p.sink(nil)
			p.sink = nil
		}
	}
}

// read reads what is there; nothing and no error: more will come.
func (p *Pump) read(buf []byte, off int64) (int, error) {
	if p.file != nil {
		return p.file.ReadAt(buf, p.base+off)
	}
	if off == p.tape.end {
		if p.over {
			return 0, io.EOF
		}
		return 0, nil
	}
	return p.tape.read(buf, off)
}

// pass gives data to its life, unless another has begun.
func (p *Pump) pass(data []byte, life int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if life != p.life {
		return
	}
	p.left = p.left.After(int64(len(data)))
	p.sink(data)
	p.forget()
	p.cond.Broadcast()
}

// Fed is how far the present life was fed.
func (p *Pump) Fed() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left[len(p.left)-1].From
}

// Leave sets the offset of a regular file to off, for the process that reads it next.
func (p *Pump) Leave(off int64) {
	if p.file != nil {
		p.file.Seek(p.base+off, io.SeekStart)
	}
}
