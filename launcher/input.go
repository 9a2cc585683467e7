package launcher

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/gorun-mpi/gorun/internal/oob"
)

// Standard input travels in Input frames to the agent of rank 0, at most
// inputWindow bytes ahead of what the rank's pipe has taken; an Input frame
// without data is its end. The agent answers with an Input whose A is the
// number of bytes that the pipe took.
const (
	inputWindow = 256 << 10
	inputChunk  = 32 << 10
)

func appendTag(out []byte, rank int32) []byte {
	out = append(out, '[')
	out = strconv.AppendInt(out, int64(rank), 10)
	return append(out, "] "...)
}

// inputPipe feeds a rank's standard input from a goroutine.
type inputPipe struct {
	f       *os.File
	written func(n int)

	mu     sync.Mutex
	cond   *sync.Cond
	chunks [][]byte
	ended  bool
}

func newInputPipe(fd int, written func(n int)) *inputPipe {
	p := &inputPipe{f: os.NewFile(uintptr(fd), "rank input"), written: written}
	p.cond = sync.NewCond(&p.mu)
	go p.run()
	return p
}

func (p *inputPipe) put(data []byte) {
	p.mu.Lock()
	if len(data) == 0 {
		p.ended = true
	} else {
		p.chunks = append(p.chunks, data)
	}
	p.cond.Signal()
	p.mu.Unlock()
}

// close gives up: the rank is gone.
func (p *inputPipe) close() {
	p.f.Close()
	p.mu.Lock()
	p.ended, p.chunks = true, nil
	p.cond.Signal()
	p.mu.Unlock()
}

func (p *inputPipe) run() {
	defer p.f.Close()
	for {
		p.mu.Lock()
		for len(p.chunks) == 0 && !p.ended {
			p.cond.Wait()
		}
		chunks := p.chunks
		p.chunks = nil
		p.mu.Unlock()
		if len(chunks) == 0 {
			return
		}
		for _, c := range chunks {
			// A rank that closed its standard input does not want the rest;
			// the bytes are taken all the same, as by /dev/null.
			p.f.Write(c)
			p.written(len(c))
		}
	}
}

// input is the agent's side of an Input frame.
func (a *agent) input(m *oob.Msg) {
	if a.in != nil {
		a.in.put(m.Data)
	}
}

func (a *agent) ackInput(n int) {
	a.head.send(oob.Msg{Kind: oob.Input, From: oob.AgentAddr(int(a.index)), To: oob.Head, A: uint64(n)})
}

// stdinPump reads the head's standard input once for the life of the job and
// gives it to whichever incarnation runs.
type stdinPump struct {
	src  io.Reader
	free *window

	mu   sync.Mutex
	sink func([]byte) // current incarnation's rank 0; nil: none
	over bool         // the input has ended
	cond *sync.Cond
}

func newStdinPump(src io.Reader) *stdinPump {
	p := &stdinPump{src: src, free: newWindow(inputWindow)}
	p.cond = sync.NewCond(&p.mu)
	return p
}

// attach directs input to another incarnation; the window starts afresh. What
// the one before had taken is gone with it.
func (p *stdinPump) attach(sink func([]byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sink = sink
	p.free.reset(inputWindow)
	if p.over {
		sink(nil)
	}
	p.cond.Broadcast()
}

// run reads to the end of the input; start it in a goroutine. It is not waited
// for: a read of a terminal cannot be interrupted.
func (p *stdinPump) run(resume <-chan os.Signal) {
	for {
		buf := make([]byte, inputChunk)
		n, err := p.src.Read(buf)
		if n > 0 {
			p.free.take(n)
			p.pass(buf[:n])
		}
		// A job in the background must not read its terminal: SIGTTIN is
		// ignored, the read fails, and is tried again when the job is continued.
		if errors.Is(err, syscall.EIO) && resume != nil {
			<-resume
			continue
		}
		if err != nil {
			p.pass(nil)
			return
		}
	}
}

func (p *stdinPump) pass(data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.sink == nil {
		p.cond.Wait()
	}
	p.over = data == nil
	p.sink(data)
}

// reset sets the window anew.
func (w *window) reset(n int) {
	w.mu.Lock()
	w.free = n
	w.cond.Broadcast()
	w.mu.Unlock()
}
