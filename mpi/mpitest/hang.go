package mpitest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
)

const (
	mostMargin = 5 * time.Second // before the test's deadline, when the process ends without a word about the ranks
	lastWords  = time.Second     // how long ranks that were told to end may take
)

// patience returns how long the ranks of a test may take; 0 means for ever.
func patience(t testing.TB) time.Duration {
	timed, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return 0
	}
	deadline, ok := timed.Deadline()
	if !ok {
		return 0
	}
	left := time.Until(deadline)
	return max(left-min(left/10, mostMargin), time.Nanosecond)
}

// wait waits until all ranks have ended, and reports whether they have. When they have hung for too long, it
// fails them and tells what they were waiting for. A rank that hangs in a call of the library then ends. One
// that hangs elsewhere does not, and wait gives it up.
func (g *group) wait(limit time.Duration, over <-chan struct{}) bool {
	if limit == 0 {
		<-over
		return true
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-over:
		return true
	case <-t.C:
	}
	g.fail(-1, fmt.Errorf("the ranks have not ended within %v:\n\t%s", limit.Round(time.Millisecond), strings.Join(g.look(), "\n\t")))
	t.Reset(lastWords)
	select {
	case <-over:
		return true
	case <-t.C:
		return false
	}
}

// look tells what the ranks are doing. A goroutine belongs to the rank whose goroutine started it, directly or
// through goroutines that still exist.
func (g *group) look() []string {
	dump := waitreport.Dump()
	parents := waitreport.Parents(dump)
	rankOf := map[int]int{}
	for rank := range g.doing {
		if n := g.doing[rank].Load(); n > 0 {
			rankOf[int(n)] = rank
		}
	}
	calls := make([][]waitreport.Call, len(g.jobs))
	for _, c := range waitreport.Calls(dump) {
		for n := c.Goroutine; n != 0; n = parents[n] {
			if rank, ok := rankOf[n]; ok {
				calls[rank] = append(calls[rank], c)
				break
			}
		}
	}
	var ranks []int
	var infos []*waitreport.Info
	for rank, j := range g.jobs {
		in := &waitreport.Info{State: "has returned"}
		if g.doing[rank].Load() >= 0 {
			in = j.Doing(calls[rank])
		}
		ranks, infos = append(ranks, rank), append(infos, in)
	}
	return waitreport.Report(ranks, infos)
}
