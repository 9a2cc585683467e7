package trace

import "sync"

// Place is where restored processes have the ids that they had: a namespace of processes,
// one of mounts, with a /proc that shows these ids, and, for who is not root, one of users.
// All processes of a place see each other as they did before.
//
// Its first process is stopped before its first instruction and stays so, until the Threads are
// closed or this process ends. All processes in the place end with it. Children without a
// parent become its own, and are forgotten by the kernel when they end.
type Place struct {
	PID  int  // of its first process
	User bool // it is a namespace of users, too

	pidfd  int
	thread *Thread
	space  string // what /proc calls its namespace of processes
	alone  bool   // it takes no second process
	used   map[int]int
	spaces sync.Map // what /proc calls the namespaces that were made in it, see Spaces
}

// Spaces are what a process in a place may have for itself and for those that descend from it.
type Spaces struct {
	SysV      bool // objects of System V (a namespace of IPC)
	Terminals bool // pseudo-terminals (a namespace of mounts)
}

// Made tells a namespace that was made in the place, by what /proc calls it.
func (p *Place) Made(link string) bool {
	_, made := p.spaces.Load(link)
	return made
}

// places are those of one Threads. Whoever makes one has making, and not mu: the threads, on which that is
// done, may wait for mu.
type places struct {
	making sync.Mutex

	mu  sync.Mutex
	all []*Place
	// late have ended and were not reaped: something in them had not been.
	late []*Place
	err  error  // why there can be none
	end  func() // of all; nil: there are none
}

func (l *places) close() {
	l.mu.Lock()
	end := l.end
	l.end, l.err = nil, ErrClosed
	l.mu.Unlock()
	if end != nil {
		end()
	}
}
