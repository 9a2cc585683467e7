package joblife

import (
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
)

// back watches ranks that come back from native images. Any progress of the start-up restarts the
// limit for all ranks.
type back struct {
	limit int64        // milliseconds; 0: the life does not begin from native images
	begun bool         // the ranks were ordered
	moved bool         // there was progress since the limit was last checked
	still int64        // milliseconds that have passed without progress
	late  float64      // the part of the limit that has passed without progress, counted as on an idle machine
	made  map[int]bool // ranks that are restored
	held  map[int]bool // ranks that wait for a debugger: no time counts while there are any
	let   bool         // all are restored, and were let go
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// waits reports whether the ranks that exist stand before their first step.
func (b *back) waits() bool { return b.begun && !b.let }

// expectBack begins to watch.
func (l *life) expectBack() {
	b := &l.back
	if b.limit == 0 {
		return
	}
	b.begun, b.made, b.held = true, map[int]bool{}, map[int]bool{}
	l.after(b.limit, l.notBack)
}

// restored records that a rank is restored. When all are, it lets all go. None goes earlier, so
// that the user's files and terminal are left alone if one cannot be restored.
func (l *life) restored(rank int) {
	b := &l.back
	if !b.begun {
		return
	}
	b.made[rank], b.moved = true, true
	if l.ending != nil || b.let || len(b.made) < len(l.ranks) {
		return
	}
	b.let = true
	l.j.detail("ranks restored: %d", len(l.ranks))
	l.everyone(oob.Msg{Kind: oob.Start, Incarnation: l.id})
}

// notBack ends a life whose ranks do not come back.
func (l *life) notBack() {
	b := &l.back
	if l.ending != nil || l.count[Up] == len(l.ranks) {
		return
	}
	b.late, b.still = b.late+1/l.slow, b.still+b.limit
	if b.moved || len(b.held) > 0 || l.j.pauses.state != runs {
		b.late, b.still = 0, 0
	}
	if b.moved = false; b.late < 0.99 { // below 1, because it is a sum of parts
		l.after(b.limit, l.notBack)
		return
	}
	l.fail(Verdict{Code: Failed, Rank: -1, Died: true, Text: fmt.Sprintf(
		"the restart was given up, because for %v nothing has moved: %s", millis(b.still), l.missing())})
}

// missing names the ranks that have not come back, and says how far the first of them is
func (l *life) missing() string {
	var late []int
	for rank := range l.ranks {
		if l.ranks[rank].phase < Up && (l.back.let || !l.back.made[rank]) {
			late = append(late, rank)
		}
	}
	if len(late) == 0 {
		return "some have ended already"
	}
	first := late[0]
	how := map[Phase]string{
		None: "is not restored yet", Spawned: "was let go and has not spoken since",
		Greeted: "has not told its address", Addressed: "has not connected to the others",
	}[l.ranks[first].phase]
	if l.back.made[first] && l.ranks[first].phase == None {
		how = "is restored and was not let go by its agent"
	}
	return fmt.Sprintf("%s (rank %d %s)", wireup.Ranks(late), first, how)
}

// holding tells the user that a rank waits for a debugger.
func (l *life) holding(rank, pid int, held bool) {
	b := &l.back
	if !b.begun {
		return
	}
	if !held {
		delete(b.held, rank)
		b.moved = true
		l.j.detail("rank %d goes on", rank)
		return
	}
	b.held[rank] = true
	l.j.say("rank %d is held before it goes on, pid %d on %s; to debug it: dlv attach %d, or gdb -p %d; to let it go on: kill -CONT %d",
		rank, pid, l.ranks[rank].link.Host, pid, pid, pid)
}
