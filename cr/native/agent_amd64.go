package native

import (
	"runtime"
	"sync"
)

// agent is what the captures of one agent have in common.
type agent struct {
	threads *pool
	births  births
	stands  chan struct{} // has room for as many processes as may stand still at once
}

// newAgent makes one that works on these threads. To be copied, processes are stopped
// one for each two processors: its threads and the one here take turns, and what others
// copy meanwhile would make each stand for longer and all together no less.
func newAgent(threads *pool) *agent {
	return &agent{threads: threads, stands: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))}
}

// births remembers how a process is born here.
type births struct {
	mu   sync.Mutex
	born identity
	bits int // securebits
}
