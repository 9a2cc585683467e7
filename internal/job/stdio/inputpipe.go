package stdio

import (
	"bytes"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Pipe feeds a rank's standard input from a goroutine, and knows how much of it the rank has taken.
//
// A rank that may go on from a portable image gets its input line by line, as from a terminal: the
// next line when it has taken the one before. Then it has taken only what it has asked for, and no
// buffer of the program has read ahead. Such an image would not hold that buffer.
type Pipe struct {
	f       *os.File
	lines   bool
	written func(n int)

	mu     sync.Mutex
	cond   *sync.Cond
	chunks [][]byte
	ended  bool

	Flow  sync.Mutex // held to write to the pipe, or to keep others from it
	fd    int        // f's; -1: closed
	other int        // the rank's end, when the input has ended; -1: not open
	gone  bool       // the rank is gone
	given int64      // bytes that were put into the pipe
	lost  int64      // of these, bytes that no process could read any more
	first int64      // bytes that the rank had taken at its first Point; -1: not known
}

// NewPipe begins to feed a pipe; written is told what it took.
func NewPipe(fd int, lines bool, written func(n int)) (*Pipe, error) {
	if lines {
		// A pipe of one page has room again only when it is empty.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, os.Getpagesize()); err != nil {
			return nil, fmt.Errorf("standard input: size of the pipe: %w", err)
		}
	}
	p := &Pipe{f: os.NewFile(uintptr(fd), "rank input"), lines: lines, written: written, fd: fd, other: -1, first: -1}
	p.cond = sync.NewCond(&p.mu)
	go p.run()
	return p, nil
}

// Put hands input over; none is its end.
func (p *Pipe) Put(data []byte) {
	p.mu.Lock()
	if len(data) == 0 {
		p.ended = true
	} else {
		p.chunks = append(p.chunks, data)
	}
	p.cond.Signal()
	p.mu.Unlock()
}

// Close gives up: the rank is gone. The caller does not hold Flow, as closing f waits for a write
// that may want it.
func (p *Pipe) Close() {
	p.Flow.Lock()
	other := p.other
	p.fd, p.other, p.gone = -1, -1, true
	p.Flow.Unlock()
	p.f.Close()
	if other >= 0 {
		unix.Close(other)
	}
	p.mu.Lock()
	p.ended, p.chunks = true, nil
	p.cond.Signal()
	p.mu.Unlock()
}

// end tells the rank that the input has ended. The other end of the pipe shows what the rank has not
// taken yet.
func (p *Pipe) end() {
	p.Flow.Lock()
	if !p.gone {
		// Without this descriptor the number of bytes taken is unknown, and is reported as such.
		other, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", p.fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			p.other = other
		}
		p.fd = -1
	}
	p.Flow.Unlock()
	p.f.Close()
}

func (p *Pipe) run() {
	defer p.end()
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
			p.write(c)
			p.written(len(c))
		}
	}
}

// write puts data into the pipe. A rank that has closed its standard input does not want the rest.
// The bytes count as taken, as with /dev/null.
func (p *Pipe) write(data []byte) {
	raw, err := p.f.SyscallConn()
	if err != nil {
		return
	}
	raw.Write(func(fd uintptr) bool {
		p.Flow.Lock()
		defer p.Flow.Unlock()
		for len(data) > 0 && !p.gone {
			some := data
			if p.lines {
				if unread(p.fd) > 0 && somebodyReads(p.fd) {
					return false
				}
				some = data[:line(data)]
			}
			n, err := unix.Write(int(fd), some)
			switch {
			case err == unix.EINTR:
				continue
			case err == unix.EAGAIN:
				return false
			case err != nil: // nobody reads
				n = len(data)
				p.lost += int64(n)
			}
			p.given += int64(n)
			data = data[n:]
		}
		return true
	})
}

// line is the length of the first line of data.
func line(data []byte) int {
	if n := bytes.IndexByte(data, '\n') + 1; n > 0 {
		return n
	}
	return len(data)
}

// unread is how much is in a pipe.
func unread(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// somebodyReads reports whether a pipe's other end is open.
func somebodyReads(fd int) bool {
	at := []unix.PollFd{{Fd: int32(fd)}}
	_, err := unix.Poll(at, 0)
	return err != nil || at[0].Revents&unix.POLLERR == 0
}

// State returns how much the rank has taken. Flow is held.
func (p *Pipe) State() *oob.InputState {
	fd := max(p.fd, p.other)
	if fd < 0 {
		return nil
	}
	return &oob.InputState{Taken: p.given - int64(unread(fd)), First: p.first}
}

// FirstPoint notes that the rank is at its first Point. The bytes that it has taken before, it
// takes again when it runs from the top.
func (p *Pipe) FirstPoint() {
	p.Flow.Lock()
	defer p.Flow.Unlock()
	if s := p.State(); s != nil {
		p.first = s.Taken
	}
}

// Now returns how much the rank has taken.
func (p *Pipe) Now() *oob.InputState {
	p.Flow.Lock()
	defer p.Flow.Unlock()
	return p.State()
}

// Used returns how much a rank that has ended had really taken: without bytes that came when no
// process read any more.
func (p *Pipe) Used() *oob.InputState {
	p.Flow.Lock()
	defer p.Flow.Unlock()
	s := p.State()
	if s != nil {
		s.Taken -= p.lost
	}
	return s
}
