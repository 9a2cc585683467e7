//go:build linux

package restore

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// Layout of the scratch memory in a process being restored: code, then records
// of calls, then what their arguments point to.
const (
	areaCode   = pages.Size
	areaCalls  = 256 << 10
	areaData   = 512<<10 - areaLast
	areaLast   = 64 // for what capset takes
	areaSize   = areaCode + areaCalls + areaData + areaLast
	recordSize = 64
)

// call is one system call to be made by the process being restored.
type call struct {
	what string // for errors
	nr   uint64
	args [6]uint64
	data []byte // what argument at points to
	at   int
	next int                            // if not 0, the argument that points to data, too,
	skip uint64                         // so many bytes further
	fix  func(data []byte, addr uint64) // puts addresses into data, which lies at addr
	may  bool                           // a failure does not matter
	done func(result uint64)
}

// puppet is a process that executes calls for us.
type puppet struct {
	pid     int
	mem     *trace.Memory
	scratch uint64
	base    trace.Regs  // what registers the calls do not set are to hold
	ids     map[int]int // what number a thread has for itself, if it is another
}

// idOf gives the number that a thread has for itself.
func (p *puppet) idOf(tid int) int {
	if id, ok := p.ids[tid]; ok {
		return id
	}
	return tid
}

// run makes thread tid, which is stopped, execute the calls in order and leaves
// it stopped. The first that fails, of those that must not, ends the run.
func (p *puppet) run(tid int, calls []call) error {
	for len(calls) > 0 {
		n, table, data, err := p.pack(calls)
		if err != nil {
			return err
		}
		if err := p.execute(tid, calls[:n], table, data); err != nil {
			return err
		}
		calls = calls[n:]
	}
	return nil
}

// pack writes down as many calls as there is room for.
func (p *puppet) pack(calls []call) (n int, table, data []byte, err error) {
	at := p.scratch + areaCode + areaCalls
	for i := range calls {
		c := &calls[i]
		if len(table)+recordSize > areaCalls || len(data)+len(c.data) > areaData {
			break
		}
		args := c.args
		if c.data != nil {
			args[c.at] = at + uint64(len(data))
			if c.next != 0 {
				args[c.next] = args[c.at] + c.skip
			}
			if c.fix != nil {
				c.fix(c.data, args[c.at])
			}
			data = append(data, c.data...)
			data = append(data, make([]byte, -len(data)&15)...)
		}
		first := c.nr
		if c.may {
			first |= 1 << 32
		}
		table = le.AppendUint64(table, first)
		for _, a := range args {
			table = le.AppendUint64(table, a)
		}
		table = le.AppendUint64(table, 0)
		n++
	}
	if n == 0 {
		return 0, nil, nil, fmt.Errorf("%s: %d bytes are more than fit", calls[0].what, len(calls[0].data))
	}
	return n, table, data, nil
}

func (p *puppet) execute(tid int, calls []call, table, data []byte) error {
	at := p.scratch + areaCode
	if err := p.mem.Poke(table, at); err != nil {
		return err
	}
	if err := p.mem.Poke(data, at+areaCalls); err != nil {
		return err
	}
	r := p.base
	r.Rip, r.Rsp, r.Orig_rax = p.scratch, 0, ^uint64(0)
	r.Rbx, r.R12, r.R13, r.R14 = at, uint64(len(calls)), uint64(p.idOf(p.pid)), uint64(p.idOf(tid))
	if err := trace.SetRegs(tid, &r); err != nil {
		return fmt.Errorf("registers of thread %d: %w", tid, err)
	}
	if err := p.untilStop(tid); err != nil {
		return fmt.Errorf("%s ...: %w", calls[0].what, err)
	}
	if err := p.mem.Peek(table, at); err != nil {
		return err
	}
	for i := range calls {
		c := &calls[i]
		result := le.Uint64(table[i*recordSize+56:])
		if e := -int64(result); e > 0 && e < 4096 {
			if !c.may {
				return fmt.Errorf("%s: %w", c.what, unix.Errno(e))
			}
			continue
		}
		if c.done != nil {
			c.done(result)
		}
	}
	return nil
}

// untilStop lets the thread run until it has stopped itself, and takes the
// signal off it. All others are held back.
func (p *puppet) untilStop(tid int) error {
	if err := trace.Resume(tid, 0); err != nil {
		return fmt.Errorf("resuming thread %d: %w", tid, err)
	}
	return awaitSelfStop(tid)
}

// awaitSelfStop waits for the stop of a thread by SIGSTOP.
func awaitSelfStop(tid int) error {
	s, err := trace.WaitStop(tid, trace.CallLimit)
	switch {
	case err != nil:
		return err
	case s.Exited:
		return whole.ErrDied
	case !s.Delivery() || s.Sig != int(unix.SIGSTOP):
		return fmt.Errorf("thread %d: %v", tid, s)
	}
	return nil
}
