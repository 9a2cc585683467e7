//go:build !gorun_nocr

package engine_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
	"github.com/gorun-mpi/gorun/rpi/shm"
	"github.com/gorun-mpi/gorun/rpi/tcp"
)

// network makes the modules of a rank.
type network func(rank int) []rpi.Module

// halves is a shm that reaches ranks of the same parity only.
type halves struct {
	*shm.Module
	rank int
}

func (m *halves) Reaches(peer int) bool {
	return peer%2 == m.rank%2 && m.Module.Reaches(peer)
}

// shy is a mem whose rank 0 believes that it does not reach rank 1.
type shy struct {
	*mem.Module
	rank int
}

func (m *shy) Reaches(peer int) bool {
	return m.rank+peer != 1 && m.Module.Reaches(peer)
}

// known is tcp for the race detector. That knows of memory that the ranks of a test share, but of no
// system calls: known tells it that what has come was sent before.
type known struct{ *tcp.Module }

var wire atomic.Uint64

func (m known) Send(peer int, h *rpi.Header, payload []byte, ref rpi.Ref, more bool) rpi.SendResult {
	wire.Add(1)
	return m.Module.Send(peer, h, payload, ref, more)
}

func (m known) Poll() bool {
	moved := m.Module.Poll()
	wire.Load()
	return moved
}

// networks are transports under a team, by name.
func networks(n int) map[string]network {
	overMem := func(wrap func(m *mem.Module, rank int) []rpi.Module) network {
		f := mem.NewFabric(n)
		return func(rank int) []rpi.Module { return wrap(f.Module(rank).(*mem.Module), rank) }
	}
	return map[string]network{
		"mem":      overMem(func(m *mem.Module, _ int) []rpi.Module { return []rpi.Module{m} }),
		"shm":      func(int) []rpi.Module { return []rpi.Module{shm.New()} },
		"tcp":      func(int) []rpi.Module { return []rpi.Module{tcp.New()} },
		"shm, tcp": func(rank int) []rpi.Module { return []rpi.Module{&halves{shm.New(), rank}, tcp.New()} },
		"mem, tcp": overMem(func(m *mem.Module, rank int) []rpi.Module { return []rpi.Module{&shy{m, rank}, known{tcp.New()}} }),
		"tcp, mem": overMem(func(m *mem.Module, rank int) []rpi.Module { return []rpi.Module{m, known{tcp.New()}} }),
	}
}

// brief is a Waiter that looks after the other module as well.
type brief struct{ rpi.Waiter }

func (w brief) Wait(time.Duration) { w.Waiter.Wait(100 * time.Microsecond) }

var incarnation atomic.Uint64

// startModules starts a network and returns the modules of each rank.
func startModules(t testing.TB, e []*engine.Engine, make_ network) [][]rpi.Module {
	t.Helper()
	modules := make([][]rpi.Module, len(e))
	addrs := make([][][]byte, 2)
	secret := fmt.Appendf(nil, "secret %d of a test, long enough", incarnation.Add(1))
	for i := range e {
		modules[i] = make_(i)
		for k, m := range modules[i] {
			addr, err := m.Start(rpi.Env{Rank: i, Size: len(e), Incarnation: incarnation.Load(), Secret: secret, Sink: e[i].Sink(k)})
			if err != nil {
				t.Fatal(err)
			}
			addrs[k] = append(addrs[k], addr)
		}
	}
	for i := range e {
		for k, m := range modules[i] {
			if err := m.Peers(addrs[k]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return modules
}

// move gives engines whose gates are closed the modules of another network.
func move(t testing.TB, e []*engine.Engine, was [][]rpi.Module, to network) [][]rpi.Module {
	t.Helper()
	is := startModules(t, e, to)
	for i := range e {
		var w rpi.Waiter
		if len(is[i]) > 1 {
			w = brief{is[i][0].(rpi.Waiter)}
		}
		if err := e[i].Restarted(is[i], w); err != nil {
			t.Fatal(err)
		}
		for _, m := range was[i] {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return is
}

// Ranks take turns while they are moved from one transport to another, again and
// again. Those that do not reach all boards are found out by all after the same
// turn.
func TestTurnsGoOnElsewhere(t *testing.T) {
	const n = 5
	turns := 120
	if testing.Short() {
		turns = 80 // more than a board has places
	}
	for _, route := range [][]string{
		{"mem"}, {"shm"}, {"tcp"}, {"shm, tcp"}, {"mem, tcp"},
		{"tcp", "mem"}, {"tcp", "shm"}, {"shm, tcp", "mem", "tcp"}, {"shm", "mem, tcp", "mem", "shm, tcp", "tcp"},
	} {
		t.Run(fmt.Sprint(route), func(t *testing.T) {
			e := memEngines(t, n, false)
			teams := joinTeam(t, e, ctx)
			var wg sync.WaitGroup
			var left, taken atomic.Int64
			over := make([]int, n)
			for me := range e {
				left.Add(1)
				wg.Go(func() {
					defer left.Add(-1)
					over[me] = -1
					for turn := range turns {
						if err := aTurn(e[me], teams[me], me, n, turn); err != nil {
							t.Errorf("rank %d, turn %d: %v", me, turn, err)
							e[me].Abort(err)
							return
						}
						taken.Add(1)
						if teams[me].Over() && over[me] < 0 {
							over[me] = turn
						}
					}
				})
			}
			var modules [][]rpi.Module
			for k, until := 0, int64(0); left.Load() == n; k++ {
				until += int64(k % 7 * 10)
				waitUntil(func() bool { return taken.Load() >= until || left.Load() < n })
				cut(t, e)
				if modules == nil {
					modules = make([][]rpi.Module, n)
				}
				modules = move(t, e, modules, networks(n)[route[k%len(route)]])
				open(e)
			}
			wg.Wait()
			t.Log(over)
			if slices.Min(over) != slices.Max(over) {
				t.Error("over after", over)
			}
			cut(t, e)
			for _, e := range e {
				// A line that was not sent at the cut looks like one that was not posted.
				if _, err := e.Saved(); err != nil && over[0] < 0 {
					t.Error(err)
				}
			}
			open(e)
			for _, e := range e {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A team is given up, and its board used by another, over any transport.
func TestBoardsAreUsedAgain(t *testing.T) {
	const n = 3
	uses := 40 // more than there are boards
	if testing.Short() {
		uses = 14
	}
	for _, route := range []string{"", "shm", "mem"} {
		e := memEngines(t, n, false)
		if route != "" {
			cut(t, e)
			move(t, e, make([][]rpi.Module, n), networks(n)[route])
			open(e)
		}
		for k := range uses {
			teams := joinTeam(t, e, uint64(ctx+k))
			var wg sync.WaitGroup
			for me := range e {
				wg.Go(func() {
					for turn := range 3 * k {
						if err := aTurn(e[me], teams[me], me, n, turn); err != nil {
							t.Errorf("team %d, rank %d, turn %d: %v", k, me, turn, err)
							e[me].Abort(err)
							return
						}
					}
					e[me].CloseTeam(teams[me])
				})
			}
			wg.Wait()
		}
		for _, e := range e {
			e.Close()
		}
	}
}

// A cut that lies before a turn on one rank and after it on another is refused
// on both.
func TestCutThroughTurn(t *testing.T) {
	e := memJob(t, 3)
	teams := joinTeam(t, e, ctx)
	var done sync.WaitGroup
	done.Go(func() { aTurn(e[0], teams[0], 0, 3, 0) })
	waitUntil(func() bool { return e[0].Blocked() != "" })
	t.Log(e[0].Blocked())
	cut(t, e)
	for i := range e {
		var c *engine.CutError
		if _, err := e[i].Saved(); !errors.As(err, &c) || c.Ctx != ctx || c.Rank != map[int]int{0: 1, 1: 0, 2: 0}[i] || c.Ahead != (i != 0) {
			t.Errorf("rank %d: %v", i, err)
		}
	}
	if p := e[0].Closer().Pending(); len(p) != 1 {
		t.Error(p)
	}
	open(e)
	for i := 1; i < 3; i++ {
		done.Go(func() { aTurn(e[i], teams[i], i, 3, 0) })
	}
	done.Wait()
	cut(t, e)
	for i := range e {
		if _, err := e[i].Saved(); err != nil {
			t.Error(err)
		}
	}
	open(e)
}

// whilePolled is a fake during whose polls something else goes on.
type whilePolled struct {
	*fake
	do func()
}

func (m whilePolled) Poll() bool { m.do(); return m.fake.Poll() }

// A rank whose lines nobody waits for may not have sent them all where boards are not
// in sight. Once it has, the cut behind the same turn of all is one.
func TestCutBehindLinesNotSent(t *testing.T) {
	for _, waits := range []bool{false, true} {
		e := memEngines(t, 2, true)
		teams := joinTeam(t, e, ctx)
		f := newFakeNet(t, 2)
		f.window = 1
		atPoint := false
		cut(t, e)
		move(t, e, make([][]rpi.Module, 2), func(rank int) []rpi.Module {
			return []rpi.Module{whilePolled{f.modules[rank], func() {
				if rank == 1 && atPoint {
					e[0].Progress()
				}
			}}}
		})
		open(e)
		for turn := range 3 {
			for i := range e {
				if _, err := e[i].Take(teams[i], &engine.Turn{Need: engine.FromOne, Tag: int32(turn)}, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if waits {
			atPoint = true
			e[1].AtPoint()
			atPoint = false
		}
		cut(t, e)
		var through *engine.CutError
		if _, err := e[0].Saved(); errors.As(err, &through) == waits {
			t.Errorf("waits: %v; %v", waits, err)
		}
		open(e)
		for _, e := range e {
			e.Close()
		}
	}
}

// A poisoned context is of no more use, so it does not matter where the members of
// its team are: nothing of it can be in an image.
func TestCutThroughPoisonedTurn(t *testing.T) {
	e := memJob(t, 2)
	teams := joinTeam(t, e, ctx)
	var done sync.WaitGroup
	done.Go(func() {
		if err := aTurn(e[0], teams[0], 0, 2, 0); !errors.Is(err, engine.ErrPoisoned) {
			t.Error(err)
		}
	})
	waitUntil(func() bool { return e[0].Blocked() != "" })
	e[1].Poison(ctx, []int{0, 1}, engine.ErrDeadline)
	done.Wait()
	cut(t, e)
	for i := range e {
		if _, err := e[i].Saved(); err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
	open(e)
}

// Wherever a restart finds a team that its members are giving up, its boards
// become free.
func TestTeamsEndElsewhere(t *testing.T) {
	const n = 3
	for _, route := range []string{"mem", "shm", "tcp"} {
		e := memEngines(t, n, false)
		modules := make([][]rpi.Module, n)
		restart := func(to string) {
			cut(t, e)
			modules = move(t, e, modules, networks(n)[to])
			open(e)
		}
		for k := range 4 * 8 { // as many as there are boards, for each way
			teams := joinTeam(t, e, uint64(ctx+k))
			var wg sync.WaitGroup
			for me := range e {
				wg.Go(func() {
					for turn := range 10 {
						if err := aTurn(e[me], teams[me], me, n, turn); err != nil {
							t.Error(err)
							e[me].Abort(err)
							return
						}
					}
				})
			}
			wg.Wait()
			for i := range n {
				if k%4 == i {
					restart(route)
				}
				e[i].CloseTeam(teams[i])
			}
			if k%4 == 3 { // the first has seen that all are gone, and forgotten it
				e[0].OpenTeam(ctx-1, []int{0, 1, 2}, 0)
				restart(route)
			}
			restart("shm")
		}
		for _, e := range e {
			e.Close()
		}
	}
}

// A team whose lines are numbered from a base comes back to boards from mirrors.
func TestBoardsAfterMirrors(t *testing.T) {
	const n = 3
	e := memEngines(t, n, false)
	modules := make([][]rpi.Module, n)
	for k := range 2 { // the second one's boards are used again
		teams := joinTeam(t, e, uint64(ctx+k))
		for part, to := range []string{"tcp", "shm", "shm"} {
			takeTurns(t, e, teams, 10*part, 10*part+10)
			cut(t, e)
			modules = move(t, e, modules, networks(n)[to])
			open(e)
		}
		for i := range n {
			e[i].CloseTeam(teams[i])
		}
	}
	for _, e := range e {
		e.Close()
	}
}

// takeTurns lets all ranks take some turns.
func takeTurns(t *testing.T, e []*engine.Engine, teams []*engine.Team, from, to int) {
	t.Helper()
	var wg sync.WaitGroup
	for me := range e {
		wg.Go(func() {
			for turn := from; turn < to; turn++ {
				if err := aTurn(e[me], teams[me], me, len(e), turn); err != nil {
					t.Errorf("rank %d, turn %d: %v", me, turn, err)
					e[me].Abort(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A restart finds a rank about to join a team, others not yet, in whose place there
// was another: that one's lines are no longer sent.
func TestTeamAfterTeamElsewhere(t *testing.T) {
	const n = 3
	e := memEngines(t, n, false)
	teams := joinTeam(t, e, ctx)
	takeTurns(t, e, teams, 0, 100)
	for i := range n {
		e[i].CloseTeam(teams[i])
	}
	if _, _, ok := e[0].OpenTeam(ctx, []int{0, 1, 2}, 0); !ok {
		t.Error("no board")
	}
	cut(t, e)
	move(t, e, make([][]rpi.Module, n), networks(n)["tcp"])
	open(e)
	for i := 1; i < n; i++ {
		go e[i].Send(0, ctx, 1, bytesType, nil, engine.Standard, nil)
		if _, err := e[0].Recv(i, ctx, 1, bytesType, nil, nil); err != nil {
			t.Error(err)
		}
	}
	for _, e := range e {
		e.Close()
	}
}

// Lines and farewells of an earlier team of the context, which a restart has made
// late, are not taken for those of the present one, joined or about to be.
func TestLinesOfAnEarlierTeam(t *testing.T) {
	const n = 3
	members := []int{0, 1, 2}
	wrong := pattern(48, 99)
	late := func(e *engine.Engine, flags uint8, p []byte) {
		h := rpi.Header{Kind: rpi.Line, Flags: flags, Ctx: ctx, Off: 1, Len: uint64(len(p)), Req: 5*64 | 3}
		if err := e.Sink(0).Deliver(1, &h, p); err != nil {
			t.Error(err)
		}
	}
	for _, to := range []string{"shm", "tcp"} {
		e := memEngines(t, n, false)
		teams, places := make([]*engine.Team, n), make([]engine.Place, n)
		for i := range e {
			teams[i], places[i], _ = e[i].OpenTeam(ctx, members, i)
		}
		for i := 1; i < n; i++ {
			if err := e[i].JoinTeam(teams[i], places); err != nil {
				t.Fatal(err)
			}
		}
		cut(t, e)
		move(t, e, make([][]rpi.Module, n), networks(n)[to])
		for _, flags := range []uint8{0, rpi.FlagGone, rpi.FlagGone | rpi.FlagMirrored} {
			p := wrong
			if flags != 0 {
				p = nil
			}
			late(e[0], flags, p) // about to join
			late(e[2], flags, p) // joined
		}
		open(e)
		if err := e[0].JoinTeam(teams[0], places); err != nil {
			t.Fatal(err)
		}
		takeTurns(t, e, teams, 0, 100)
		for i := range e {
			if over := teams[i].Over(); over != (to == "tcp") {
				t.Errorf("over %s, rank %d: team over: %v", to, i, over)
			}
			e[i].CloseTeam(teams[i])
		}
		for _, e := range e {
			e.Close()
		}
	}
}

// single is a mem with one board.
type single struct{ *mem.Module }

func (m single) Boards() []int { return m.Module.Boards()[:1] }

func (m single) Board(i int) []byte {
	if i > 0 {
		return nil
	}
	return m.Module.Board(i)
}

func (m single) PeerBoard(peer, i int) []byte {
	if i > 0 {
		return nil
	}
	return m.Module.PeerBoard(peer, i)
}

// A restart takes one rank the board on which it is about to join a team. Another opens
// the team afterwards, and gets that one's first line before it joins: it is not lost.
func TestLineBeforeJoin(t *testing.T) {
	const n = 2
	members := []int{0, 1}
	e := memEngines(t, n, false)
	e[0].OpenTeam(ctx+2, members, 0) // its first board is in use
	teams, places := make([]*engine.Team, n), make([]engine.Place, n)
	teams[0], places[0], _ = e[0].OpenTeam(ctx, members, 0)
	cut(t, e)
	f := mem.NewFabric(n)
	move(t, e, make([][]rpi.Module, n), func(rank int) []rpi.Module { return []rpi.Module{single{f.Module(rank).(*mem.Module)}} })
	open(e)
	var ok bool
	if teams[1], places[1], ok = e[1].OpenTeam(ctx, members, 1); !ok {
		t.Fatal("no board")
	}
	take := func(i int) error {
		_, err := e[i].Take(teams[i], &engine.Turn{Tag: 7}, nil)
		return err
	}
	if err := e[0].JoinTeam(teams[0], places); err != nil {
		t.Fatal(err)
	}
	first := make(chan error, 1)
	go func() { first <- take(0) }()
	for e[0].Blocked() == "" { // it has posted
		runtime.Gosched()
	}
	e[0].AtPoint() // and sent
	hearAll(t, e)
	if err := e[1].JoinTeam(teams[1], places); err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() { second <- take(1) }()
	for range n {
		select {
		case err := <-first:
			if err != nil {
				t.Error(err)
			}
		case err := <-second:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("they wait: %q, %q", e[0].Blocked(), e[1].Blocked())
		}
	}
	for _, e := range e {
		e.Close()
	}
}

// A restart finds one rank about to join a team that another then gives up at once:
// no board is kept for it, wherever the members are.
func TestTeamEndsWhileItIsJoined(t *testing.T) {
	const n = 3
	e := memEngines(t, n, false)
	for k := range uint64(2) { // the second time the boards are used again
		teams, places := make([]*engine.Team, n), make([]engine.Place, n)
		for i := range e {
			teams[i], places[i], _ = e[i].OpenTeam(ctx+k, []int{0, 1, 2}, i)
		}
		join := func(i int) {
			if err := e[i].JoinTeam(teams[i], places); err != nil {
				t.Fatal(err)
			}
		}
		join(1)
		join(2)
		cut(t, e)
		modules := move(t, e, make([][]rpi.Module, n), networks(n)["shm, tcp"]) // 1 is elsewhere
		open(e)
		e[1].CloseTeam(teams[1])
		hearAll(t, e)
		join(0)
		e[0].CloseTeam(teams[0])
		e[2].CloseTeam(teams[2])
		hearAll(t, e)
		hearAll(t, e) // the answers
		allFree(t, e[0], 8, []int{0, 2}, 0)
		allFree(t, e[2], 8, []int{0, 2}, 1)
		cut(t, e)
		move(t, e, modules, networks(n)["shm"])
		open(e)
	}
	for _, e := range e {
		e.Close()
	}
}

// allFree fails the test unless the rank can open as many teams as it has boards.
func allFree(t *testing.T, e *engine.Engine, boards int, members []int, me int) {
	t.Helper()
	var all []*engine.Team
	for range boards {
		team, _, ok := e.OpenTeam(ctx+10+uint64(len(all)), members, me)
		if !ok {
			t.Fatalf("member %d has %d boards left of %d", me, len(all), boards)
		}
		all = append(all, team)
	}
	for _, team := range all {
		e.CloseTeam(team)
	}
}

// A rank that gives a team up before it has joined it tells the members that have.
func TestTeamThatOneDoesNotJoin(t *testing.T) {
	const n = 3
	e := memJob(t, n)
	teams, places := make([]*engine.Team, n), make([]engine.Place, n)
	for i := range e {
		teams[i], places[i], _ = e[i].OpenTeam(ctx, []int{0, 1, 2}, i)
	}
	for i := 1; i < n; i++ {
		if err := e[i].JoinTeam(teams[i], places); err != nil {
			t.Fatal(err)
		}
	}
	for i := range e {
		e[i].CloseTeam(teams[i])
	}
	for i := range e {
		allFree(t, e[i], 4, []int{0, 1, 2}, i)
	}
}

// hearAll lets each rank hear what the others have sent it so far.
func hearAll(t *testing.T, e []*engine.Engine) {
	t.Helper()
	for from := range e {
		for to := range e {
			if from == to {
				continue
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := e[from].Send(to, ctx, 1, bytesType, nil, engine.Standard, nil); err != nil {
					t.Error(err)
				}
			})
			if _, err := e[to].Recv(from, ctx, 1, bytesType, nil, nil); err != nil {
				t.Error(err)
			}
			wg.Wait()
		}
	}
}
