package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
	"pgregory.net/rapid"
)

// joinTeam makes one team of all engines, as package mpi does by messages.
func joinTeam(t testing.TB, e []*engine.Engine, ctx uint64) []*engine.Team {
	t.Helper()
	members := make([]int, len(e))
	for i := range e {
		members[i] = i
	}
	teams := make([]*engine.Team, len(e))
	places := make([]engine.Place, len(e))
	for i := range e {
		var ok bool
		if teams[i], places[i], ok = e[i].OpenTeam(ctx, members, i); !ok {
			t.Fatalf("rank %d has no board", i)
		}
	}
	for i := range e {
		if err := e[i].JoinTeam(teams[i], places); err != nil {
			t.Fatal(err)
		}
	}
	return teams
}

// All ranks take turns of all kinds.
func TestTurns(t *testing.T) {
	for _, n := range []int{2, 3, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			e := memJob(t, n)
			teams := joinTeam(t, e, ctx)
			var wg sync.WaitGroup
			for me := range e {
				wg.Go(func() {
					for turn := range 500 {
						if err := aTurn(e[me], teams[me], me, n, turn); err != nil {
							t.Errorf("rank %d, turn %d: %v", me, turn, err)
							e[me].Abort(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// aTurn takes a turn whose kind and size follow from its number.
func aTurn(e *engine.Engine, team *engine.Team, me, n, turn int) error {
	sizes := []int{0, 8, 44, 45, 1000, team.Piece()}
	size := sizes[turn/3%len(sizes)]
	if turn%6 == 3 {
		return sharesTurn(e, team, me, n, turn, size)
	}
	once := turn%12 == 0 // and is there room?
	tail := size * (turn % 5) / 5
	if once {
		tail = 0
	}
	x := &engine.Turn{Tag: int32(turn), Need: engine.Need(turn % 3), One: turn / 7 % n, Once: once, Want: size, Len: size, Stride: size, Into: make([]byte, n*size),
		TailLen: tail, TailInto: make([]byte, n*tail)}
	if x.Need != engine.FromOne || x.One == me {
		x.Send = pattern(size, me+turn)
		x.Send, x.Tail = x.Send[:size-tail], x.Send[size-tail:]
	}
	if turn%4 == 1 && x.Need != engine.FromOne {
		x.Combine = sequence{}
	}
	st, err := e.Take(team, x, nil)
	if err != nil || st.Tag != turn || st.Bytes != size {
		return fmt.Errorf("%+v, %w", st, err)
	}
	if x.Combine != nil {
		want := make([]byte, size)
		if x.Need == engine.Everybody || x.One == me {
			var parts [][]byte
			for i := range n {
				parts = append(parts, pattern(size, i+turn))
			}
			x.Combine.Combine(want, parts)
		}
		if !bytes.Equal(x.Into[:size], want) {
			return errors.New("combined to something else")
		}
		return nil
	}
	for i := range n {
		got := x.Into[i*size : (i+1)*size]
		switch {
		case x.Need == engine.FromOne && (i > 0 || x.One == me), x.Need == engine.ToOne && x.One != me:
			if !bytes.Equal(got, make([]byte, size)) {
				return fmt.Errorf("something was copied to %d", i)
			}
			continue
		case x.Need == engine.FromOne:
			i = x.One
		}
		if !bytes.Equal(got, pattern(size, i+turn)) {
			return fmt.Errorf("another payload from %d", i)
		}
		if x.Need == engine.FromOne {
			i = 0
		}
		if !bytes.Equal(x.TailInto[i*tail:][:tail], got[size-tail:]) {
			return fmt.Errorf("another tail from %d", i)
		}
	}
	return nil
}

// sharesTurn takes a turn in which everybody reads its own share of all lines, whole
// or in strips, and copies or combines what it reads; or one combines all lines.
func sharesTurn(e *engine.Engine, team *engine.Team, me, n, turn, size int) error {
	k := size / n
	buf := func(rank int) []byte { return pattern(n*k+7*n, rank+turn) }
	stride := k
	x := &engine.Turn{Tag: int32(turn), Send: buf(me)[:n*k], Want: n * k, Off: me * k, Len: k, Own: true, Into: make([]byte, n*k), Stride: k}
	if turn%4 < 2 {
		stride += 7
		x.Send, x.SendStride, x.SendLen = buf(me), stride, k
	}
	var parts, lines [][]byte
	for rank := range n {
		parts, lines = append(parts, buf(rank)[me*stride:][:k]), append(lines, nil)
		for i := range n {
			lines[rank] = append(lines[rank], buf(rank)[i*stride:][:k]...)
		}
	}
	want := bytes.Join(parts, nil)
	switch turn % 12 {
	case 3:
		x.Combine = sequence{}
		clear(want)
		x.Combine.Combine(want[:k], parts)
	case 9:
		x.Combine, x.Once, x.Own = sequence{}, true, false
		all := make([]byte, n*k)
		x.Combine.Combine(all, lines)
		clear(want)
		copy(want, all[x.Off:][:k])
	}
	st, err := e.Take(team, x, nil)
	if err != nil || st.Tag != turn || st.Bytes != x.Want {
		return fmt.Errorf("%+v, %w", st, err)
	}
	if !bytes.Equal(x.Into, want) {
		return errors.New("other shares")
	}
	return nil
}

// sequence is a Combiner that tells in which order it was given what.
type sequence struct{}

func (sequence) Combine(dst []byte, parts [][]byte) {
	clear(dst)
	for _, p := range parts {
		for i := range dst {
			dst[i] = 3*dst[i] + p[i]
		}
	}
}

// A turn ends with an error when a rank whose line it needs fails, and only then.
func TestTurnPeerFails(t *testing.T) {
	const n = 3
	e := memEngines(t, n, false)
	teams := joinTeam(t, e, ctx)
	var wg sync.WaitGroup
	for me := range 2 {
		wg.Go(func() {
			for one := range 2 {
				if _, err := e[me].Take(teams[me], &engine.Turn{Need: engine.FromOne, One: one}, nil); err != nil {
					t.Errorf("rank %d: %v", me, err)
				}
			}
			_, err := e[me].Take(teams[me], &engine.Turn{Need: engine.ToOne, One: 0}, nil)
			if me == 1 && err == nil {
				_, err = e[me].Take(teams[me], &engine.Turn{}, nil) // Everybody
			}
			if !errors.Is(err, engine.ErrPeerFailed) {
				t.Errorf("rank %d: %v", me, err)
			}
			if _, err := e[me].Take(teams[me], &engine.Turn{}, nil); !errors.Is(err, engine.ErrRequest) {
				t.Errorf("rank %d goes on: %v", me, err)
			}
		})
	}
	waitUntil(func() bool { return e[0].Blocked() != "" && e[1].Blocked() != "" })
	e[2].Close()
	wg.Wait()
	for me := range 2 {
		e[me].Close()
	}
}

// A wait for a turn ends by all that ends other waits.
func TestTurnGivenUp(t *testing.T) {
	const n = 3
	for name, c := range map[string]struct {
		want error
		end  func(e *engine.Engine, cancel func())
	}{
		"deadline": {engine.ErrDeadline, func(_ *engine.Engine, cancel func()) { cancel() }},
		"abort":    {engine.ErrAborted, func(e *engine.Engine, _ func()) { e.Abort(nil) }},
		"poison":   {engine.ErrPoisoned, func(e *engine.Engine, _ func()) { e.Poison(ctx, nil, engine.ErrType) }},
	} {
		for _, beside := range []bool{false, true} { // another caller leads
			t.Run(fmt.Sprint(name, beside), func(t *testing.T) {
				e := memJob(t, n)
				teams := joinTeam(t, e, ctx)
				given, cancel := context.WithCancel(context.Background())
				defer cancel()
				if beside {
					r := must(t)(e[0].Irecv(1, ctx, 0, bytesType, nil))
					go e[0].Wait(r, nil)
					waitUntil(func() bool { return e[0].Blocked() != "" })
				}
				v := engine.NewView(given, e[0])
				defer v.Stop()
				done := make(chan error)
				go func() {
					_, err := e[0].Take(teams[0], &engine.Turn{}, v)
					done <- err
				}()
				waitUntil(func() bool { return strings.Contains(strings.Join(e[0].Pending(), " "), "turn 1") })
				c.end(e[0], cancel)
				if err := <-done; !errors.Is(err, c.want) {
					t.Error(err)
				}
				if _, err := e[0].Take(teams[0], &engine.Turn{}, v); !errors.Is(err, c.want) {
					t.Error("the next:", err)
				}
				if beside {
					e[0].Abort(nil)
				}
			})
		}
	}
}

// A rank that waits for a turn sleeps.
func TestTurnSleeps(t *testing.T) {
	const n = 3
	e := memJob(t, n)
	teams := joinTeam(t, e, ctx)
	done := make(chan error)
	go func() { done <- aTurn(e[0], teams[0], 0, n, 0) }()
	waitUntil(func() bool { return strings.Contains(e[0].Blocked(), " for ") })
	for me := 1; me < n; me++ {
		go func() { done <- aTurn(e[me], teams[me], me, n, 0) }()
	}
	for range n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Ranks are late now and then, so that others sleep, run ahead and wait for room:
// nobody sleeps for ever.
func TestTurnsOfLaggards(t *testing.T) {
	const n, turns = 4, 2000
	e := memJob(t, n)
	teams := joinTeam(t, e, ctx)
	var wg sync.WaitGroup
	for me := range n {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(me), 1))
			into := make([]byte, n*teams[me].Piece())
			late := time.NewTicker(20 * time.Microsecond)
			defer late.Stop()
			for turn := range turns {
				if rng.IntN(40) == 0 {
					for range rng.IntN(10) {
						<-late.C
					}
				}
				// One sends long payloads to all, then all send long ones to it.
				size := []int{0, 100, teams[me].Piece()}[turn/100%3]
				x := &engine.Turn{Tag: 7, Need: engine.FromOne, One: turn / 200 % n, Want: size, Len: size, Into: into, Stride: size}
				if turn/20%4 == 3 {
					x.Need = engine.ToOne
				}
				if x.One == me || x.Need == engine.ToOne {
					x.Send = into[:size]
				}
				if st, err := e[me].Take(teams[me], x, nil); err != nil || st.Bytes != size {
					t.Errorf("rank %d, turn %d: %+v, %v", me, turn, st, err)
					e[me].Abort(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A caller that waits for room while another sleeps for all is woken, too.
func TestRoomBesideSleeper(t *testing.T) {
	const n, size = 2, 1000
	f := mem.NewFabric(n)
	modules := []rpi.Module{f.Module(0), f.Module(1)}
	e := connect(t, modules, false)
	teams := joinTeam(t, e, ctx)
	r := must(t)(e[0].Irecv(1, ctx, 0, bytesType, nil))
	received, sent := make(chan error), make(chan error)
	go func() {
		_, err := e[0].Wait(r, nil)
		received <- err
	}()
	waitUntil(func() bool { return e[0].Blocked() != "" && modules[1].(shared.Boards).Asleep(0) })
	turn := engine.Turn{Need: engine.FromOne, One: 0, Want: size}
	go func() {
		x := turn
		x.Send = make([]byte, size)
		var err error
		for k := 0; k < 3 && err == nil; k++ {
			_, err = e[0].Take(teams[0], &x, nil)
		}
		sent <- err
	}()
	waitUntil(func() bool { return strings.Contains(strings.Join(e[0].Pending(), " "), "room") })
	for range 2 {
		if _, err := e[1].Take(teams[1], &turn, nil); err != nil {
			t.Error(err)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if err := e[1].Send(0, ctx, 0, bytesType, nil, engine.Standard, nil); err != nil {
		t.Error(err)
	}
	if err := <-received; err != nil {
		t.Error(err)
	}
	for _, e := range e {
		e.Close()
	}
}

// Turns of all kinds, sizes and strips do what they say.
func TestTurnsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(rt, "ranks")
		e := memEngines(t, n, false)
		teams := joinTeam(t, e, ctx)
		most := teams[0].Piece()
		var script []engine.Turn
		for range rapid.IntRange(1, 90).Draw(rt, "turns") {
			script = append(script, drawTurn(rt, n, most))
		}
		var wg sync.WaitGroup
		errs := make([]error, n)
		for me := range n {
			wg.Go(func() {
				for k := range script {
					if errs[me] = play(e[me], teams[me], script[k], me, n, k); errs[me] != nil {
						e[me].Abort(nil)
						return
					}
				}
			})
		}
		wg.Wait()
		for _, e := range e {
			e.Close()
		}
		for me, err := range errs {
			if err != nil {
				rt.Errorf("rank %d: %v", me, err)
			}
		}
	})
}

// drawTurn draws a turn of n ranks whose lines have at most so many bytes.
func drawTurn(rt *rapid.T, n, most int) engine.Turn {
	x := engine.Turn{Need: engine.Need(rapid.IntRange(0, 2).Draw(rt, "need")), One: rapid.IntRange(0, n-1).Draw(rt, "one")}
	if rapid.Bool().Draw(rt, "strips") {
		blocks := rapid.IntRange(1, n).Draw(rt, "blocks")
		x.SendLen = rapid.IntRange(1, min(most/blocks, 2000)).Draw(rt, "strip")
		x.SendStride = x.SendLen + rapid.IntRange(0, 100).Draw(rt, "gap")
		x.Want = blocks * x.SendLen
	} else {
		x.Want = rapid.OneOf(rapid.IntRange(0, 60), rapid.IntRange(0, most)).Draw(rt, "size")
	}
	x.Off = rapid.IntRange(0, x.Want).Draw(rt, "off")
	x.Len = rapid.IntRange(0, x.Want-x.Off).Draw(rt, "len")
	if x.Need != engine.FromOne && rapid.Bool().Draw(rt, "combined") {
		x.Combine = sequence{}
	}
	if x.Need == engine.Everybody && rapid.Bool().Draw(rt, "once") {
		if x.Once = true; x.Combine == nil {
			x.Off, x.Len = 0, x.Want
		}
	}
	x.Stride = x.Len + rapid.IntRange(0, 9).Draw(rt, "stride")
	return x
}

// sends returns what a rank has for a turn, and what of it is sent.
func sends(x *engine.Turn, rank, turn int) (buf, sent []byte) {
	if x.SendStride == 0 {
		buf = pattern(x.Want, rank+turn)
		return buf, buf
	}
	buf = pattern((x.Want/x.SendLen-1)*x.SendStride+x.SendLen, rank+turn)
	for at := 0; at < len(buf); at += x.SendStride {
		sent = append(sent, buf[at:at+x.SendLen]...)
	}
	return buf, sent
}

// play takes a turn and compares what has come with what the model says.
func play(e *engine.Engine, team *engine.Team, x engine.Turn, me, n, turn int) error {
	x.Tag = int32(turn)
	x.Into = make([]byte, (n-1)*x.Stride+x.Len)
	want := make([]byte, len(x.Into))
	if x.Need != engine.FromOne || x.One == me {
		x.Send, _ = sends(&x, me, turn)
	}
	var parts [][]byte
	for i := range n {
		at := i * x.Stride
		switch {
		case x.Need == engine.FromOne && (i != x.One || i == me), x.Need == engine.ToOne && me != x.One:
			continue
		case x.Need == engine.FromOne:
			at = 0
		}
		_, sent := sends(&x, i, turn)
		if !x.Once {
			sent = sent[x.Off:][:x.Len]
		}
		if parts = append(parts, sent); x.Combine == nil {
			copy(want[at:at+x.Len], sent)
		}
	}
	if x.Combine != nil && len(parts) > 0 {
		all := make([]byte, len(parts[0]))
		if x.Combine.Combine(all, parts); x.Once {
			all = all[x.Off:][:x.Len]
		}
		copy(want, all)
	}
	st, err := e.Take(team, &x, nil)
	if err != nil || st.Tag != turn || st.Bytes != x.Want || !bytes.Equal(x.Into, want) {
		return fmt.Errorf("turn %d: %+v: %+v, %w", turn, x, st, err)
	}
	return nil
}

// A line of another call, or of another length, is told with whose it is; a turn
// that cannot be is refused.
func TestTurnsDiffer(t *testing.T) {
	e := memJob(t, 2)
	for k, x := range []engine.Turn{{Tag: 5, Send: make([]byte, 3), Want: 3}, {Tag: 6, Send: make([]byte, 4), Want: 4}} {
		teams := joinTeam(t, e, ctx+1+uint64(k))
		var wg sync.WaitGroup
		wg.Go(func() { e[1].Take(teams[1], &x, nil) })
		st, err := e[0].Take(teams[0], &engine.Turn{Tag: 6, Send: make([]byte, 3), Want: 3}, nil)
		if err != nil || st != (engine.Status{Source: 1, Tag: 5 + k, Bytes: 3 + k}) {
			t.Errorf("%+v, %v", st, err)
		}
		wg.Wait()
		if _, err := e[0].Take(teams[0], &engine.Turn{}, nil); !errors.Is(err, engine.ErrRequest) {
			t.Errorf("it goes on: %v", err)
		}
	}
	teams := joinTeam(t, e, ctx)
	for _, x := range []engine.Turn{
		{Send: make([]byte, teams[0].Piece()+1)}, {Want: 5, Off: 3, Len: 3, Into: make([]byte, 100)}, {Want: 5, Off: -1, Len: 3, Into: make([]byte, 100)},
		{Want: 5, Len: 5, Stride: 5, Into: make([]byte, 9)}, {Send: make([]byte, 9), SendStride: 3, SendLen: 4}, {SendStride: -1},
		{Want: 5, Len: 5, Into: make([]byte, 4), Combine: sequence{}}, {Send: make([]byte, 5), Want: 5, Off: 3, Len: 2, Stride: 2, Own: true},
		{Send: make([]byte, 4), Want: 5, Off: 3, Len: 2, Into: make([]byte, 9), Own: true}, {Need: engine.FromOne, Want: 5, Len: 5, Into: make([]byte, 9), Own: true},
		{Need: engine.FromOne, Want: 5, Len: 5, Into: make([]byte, 9), Combine: sequence{}},
	} {
		if _, err := e[0].Take(teams[0], &x, nil); !errors.Is(err, engine.ErrTruncate) {
			t.Errorf("%+v: %v", x, err)
		}
	}
	e[0].CloseTeam(teams[0])
	if _, err := e[0].Take(teams[0], &engine.Turn{}, nil); !errors.Is(err, engine.ErrRequest) {
		t.Error(err)
	}
}

// A member that has not joined, and whose board is another team's by now, has not failed for those
// that have joined: they wait until they are told why.
func TestTurnWithoutWhoHasNotJoined(t *testing.T) {
	e := memJob(t, 3)
	members := []int{0, 1}
	var places []engine.Place
	var teams []*engine.Team
	for i := range members {
		team, at, ok := e[i].OpenTeam(ctx, members, i)
		if !ok {
			t.Fatal("no board")
		}
		teams, places = append(teams, team), append(places, at)
	}
	e[0].CloseTeam(teams[0])
	const other = ctx + 1
	var pair [2]*engine.Team
	var at [2]engine.Place
	for i, r := range []int{0, 2} {
		var ok bool
		if pair[i], at[i], ok = e[r].OpenTeam(other, []int{0, 2}, i); !ok {
			t.Fatal("no board")
		}
	}
	if at[0].Board != places[0].Board {
		t.Fatal("the board is not used again")
	}
	done := make(chan error, 2)
	for i, r := range []int{0, 2} {
		if err := e[r].JoinTeam(pair[i], at[:]); err != nil {
			t.Fatal(err)
		}
		go func() { done <- aTurn(e[r], pair[i], i, 2, 0) }()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := e[1].JoinTeam(teams[1], places); err != nil {
		t.Fatal(err)
	}
	go func() { done <- aTurn(e[1], teams[1], 1, 2, 0) }()
	waitUntil(func() bool { return e[1].Blocked() != "" || len(done) > 0 })
	e[0].Poison(ctx, members, engine.ErrDeadline)
	if err := <-done; !errors.Is(err, engine.ErrPoisoned) || !errors.Is(err, engine.ErrGaveUp) || errors.Is(err, engine.ErrPeerFailed) {
		t.Error(err)
	}
}

// A turn allocates nothing.
func TestTurnAllocates(t *testing.T) {
	e := memJob(t, 2)
	teams := joinTeam(t, e, ctx)
	const turns = 500
	done := make(chan struct{})
	x := [2]engine.Turn{}
	for i := range x {
		x[i] = engine.Turn{Send: make([]byte, 8), Want: 8, Len: 8, Into: make([]byte, 16), Stride: 8}
	}
	turn := func(me int) { e[me].Take(teams[me], &x[me], nil) }
	go func() {
		defer close(done)
		for range turns + 1 {
			turn(1)
		}
	}()
	if n := testing.AllocsPerRun(turns, func() { turn(0) }); n != 0 {
		t.Error(n, "allocations")
	}
	<-done
}

// A turn of which all lines are there ends well, also if it is poisoned before
// its caller has seen that.
func TestPoisonAfterTurn(t *testing.T) {
	for range 200 {
		e := memJob(t, 2)
		teams := joinTeam(t, e, ctx)
		done := make(chan error)
		go func() { done <- aTurn(e[0], teams[0], 0, 2, 0) }()
		if err := aTurn(e[1], teams[1], 1, 2, 0); err != nil {
			t.Fatal(err)
		}
		e[1].Poison(ctx, []int{0, 1}, engine.ErrType)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}
