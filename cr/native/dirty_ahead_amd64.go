package native

import "time"

// lookAhead prepares the following of changes before the process is stopped for
// its image. It returns for how long it stood still for that, the first time
// only. Failures are met, and reported, by the scan that follows.
func (g *Target) lookAhead(th *traceThread) (stood time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.track.begun && canFollow() == nil {
		th.do(func() { stood = g.beginFollowing(th) })
	}
	g.track.ahead(g.pid)
	return stood
}

// beginFollowing stops the process for as long as it takes to make a few system
// calls. All threads stand: none may meet the descriptor that is there
// meanwhile, or put another one in its place. It runs on th.
func (g *Target) beginFollowing(th *traceThread) time.Duration {
	st, err := g.stopAll(th)
	if err != nil {
		return 0
	}
	st.beginInLeader()
	return st.release()
}

func (st *standstill) beginInLeader() {
	g := st.g
	maps, err := parsedProc(g.pid, "maps", parseMaps)
	if err != nil {
		return
	}
	mem, err := openMemory(g.pid)
	if err != nil {
		return
	}
	defer mem.Close()
	text, err := g.findText(mem, maps)
	if err != nil {
		return
	}
	in, err := begin(g.pid, text)
	if err != nil {
		return
	}
	defer in.end()
	g.track.begin(stopped{pid: g.pid, pidfd: g.pidfd, syscall: in.call})
}
