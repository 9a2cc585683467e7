package rpi_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
)

// joinTeam makes one team of all engines, as package mpi does by messages.
func joinTeam(t testing.TB, e []*rpi.Engine, ctx uint64) []*rpi.Team {
	t.Helper()
	members := make([]int, len(e))
	for i := range e {
		members[i] = i
	}
	teams := make([]*rpi.Team, len(e))
	places := make([]rpi.Place, len(e))
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
func aTurn(e *rpi.Engine, team *rpi.Team, me, n, turn int) error {
	sizes := []int{0, 8, 48, 49, 1000, team.Piece()}
	size := sizes[turn/3%len(sizes)]
	x := &rpi.Turn{Tag: int32(turn), Need: rpi.Need(turn % 3), One: turn / 7 % n, Want: size, Len: size, Stride: size, Into: make([]byte, n*size)}
	if x.Need != rpi.FromOne || x.One == me {
		x.Send = pattern(size, me+turn)
	}
	st, err := e.Take(team, x, nil)
	if err != nil || st.Tag != turn || st.Bytes != size {
		return fmt.Errorf("%+v, %w", st, err)
	}
	for i := range n {
		got := x.Into[i*size : (i+1)*size]
		switch {
		case x.Need == rpi.FromOne && (i > 0 || x.One == me), x.Need == rpi.ToOne && x.One != me:
			if !bytes.Equal(got, make([]byte, size)) {
				return fmt.Errorf("something was copied to %d", i)
			}
			continue
		case x.Need == rpi.FromOne:
			i = x.One
		}
		if !bytes.Equal(got, pattern(size, i+turn)) {
			return fmt.Errorf("another payload from %d", i)
		}
	}
	return nil
}
