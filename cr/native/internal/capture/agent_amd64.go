package capture

import (
	"encoding/binary"
	"runtime"
	"sync"

	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// Agent is what the captures of one agent have in common.
type Agent struct {
	threads   *trace.Threads
	births    births
	comebacks comebacks
	writers   writers
	stands    chan struct{} // has room for as many processes as may stand still at once
}

// New makes one that works on these threads. To be copied, processes are stopped
// one for each two processors: its threads and the one here take turns, and what others
// copy meanwhile would make each stand for longer and all together no less.
func New(threads *trace.Threads) *Agent {
	return &Agent{threads: threads, stands: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))}
}

// births remembers how a process is born here.
type births struct {
	mu   sync.Mutex
	born identity
	bits int // securebits
}

// le is the order of bytes in the kernel's tables and the processor's registers.
var le = binary.LittleEndian
