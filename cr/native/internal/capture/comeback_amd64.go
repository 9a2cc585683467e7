package capture

import (
	"sync"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// comebacks remembers what programs that have come back from images need of the processor. A Go
// program looks once, when it is started, which instructions there are. So an image that is made on
// a better machine than it was started on needs no more than the first one did, and the program may
// go back. C's libraries look again whenever one is loaded, so this does not help with them.
type comebacks struct {
	mu   sync.Mutex
	each map[int]comeback // by process
}

type comeback struct {
	start      uint64   // of the process, in the kernel's ticks: numbers are used again
	mm         proc.MM  // where its memory has what: otherwise since it has executed another program
	extensions []string // nil: it was started here
}

// CameBack tells what the image that a process goes on from needs of the processor. Attach follows.
func (a *Agent) CameBack(pid int, extensions []string) {
	stat, err := proc.Parsed(pid, "stat", procfs.ParseStat)
	if err != nil {
		return // it has ended
	}
	b := &a.comebacks
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.each == nil {
		b.each = map[int]comeback{}
	}
	b.each[pid] = comeback{start: stat.Start, extensions: extensions}
}

// comebackOf gives what CameBack told of a process.
func (a *Agent) comebackOf(pid int) comeback {
	b := &a.comebacks
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.each[pid]
	delete(b.each, pid)
	if c.extensions == nil {
		return comeback{}
	}
	stat, err := proc.Parsed(pid, "stat", procfs.ParseStat)
	if err != nil || stat.Start != c.start {
		return comeback{}
	}
	c.mm = proc.MMOf(stat.Layout)
	return c
}
