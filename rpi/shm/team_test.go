package shm

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// takeTurns lets each engine take turns of a team, beside its other calls.
func takeTurns(j *job, turns int) {
	j.T.Helper()
	n := len(j.Engines)
	members := make([]int, n)
	for i := range members {
		members[i] = i
	}
	teams, places := make([]*engine.Team, n), make([]engine.Place, n)
	for i, e := range j.Engines {
		var ok bool
		if teams[i], places[i], ok = e.OpenTeam(3, members, i); !ok {
			j.T.Fatalf("rank %d has no board", i)
		}
	}
	for i, e := range j.Engines {
		if err := e.JoinTeam(teams[i], places); err != nil {
			j.T.Fatal(err)
		}
		j.Go(i, func(e *engine.Engine) error {
			for turn := range turns {
				if err := takeTurn(e, teams[i], i, n, turn); err != nil {
					return fmt.Errorf("turn %d: %w", turn, err)
				}
			}
			return nil
		})
	}
}

// takeTurn takes a turn whose kind and size follow from its number.
func takeTurn(e *engine.Engine, team *engine.Team, rank, n, turn int) error {
	size := []int{0, 8, 48, 5000, team.Piece()}[turn/3%5]
	x := &engine.Turn{
		Tag: int32(turn), Need: engine.Need(turn % 3), One: turn / 9 % n,
		Want: size, Len: size, Stride: size, Into: make([]byte, n*size),
	}
	if x.Need != engine.FromOne || x.One == rank {
		x.Send = pattern(turn*n+rank, size)
	}
	st, err := e.Take(team, x, nil)
	if err != nil || st.Tag != turn || st.Bytes != size {
		return fmt.Errorf("%+v, %w", st, err)
	}
	for i := range n {
		from := i
		switch {
		case x.Need == engine.FromOne && (i > 0 || x.One == rank), x.Need == engine.ToOne && x.One != rank:
			continue
		case x.Need == engine.FromOne:
			from = x.One
		}
		if !bytes.Equal(x.Into[i*size:(i+1)*size], pattern(turn*n+from, size)) {
			return fmt.Errorf("another payload from %d", from)
		}
	}
	return nil
}

// A board is where every other rank of the machine sees it, and the same for all.
func TestBoards(t *testing.T) {
	w := newWorld(t, 3)
	defer w.Close()
	sizes := w.M[0].Boards()
	n := len(sizes)
	for i, size := range sizes {
		own := w.M[0].Board(i)
		if len(own) < size {
			t.Fatalf("board %d has %d bytes, %d are used", i, len(own), size)
		}
		own[0], own[size-1] = byte(i+1), byte(i+2)
	}
	for i, size := range sizes {
		for _, m := range w.M[1:] {
			if p := m.PeerBoard(0, i); p[0] != byte(i+1) || p[size-1] != byte(i+2) || len(p) != len(w.M[0].Board(i)) {
				t.Errorf("board %d is another", i)
			}
		}
	}
	for _, i := range []int{-1, n} {
		if w.M[0].Board(i) != nil || w.M[1].PeerBoard(0, i) != nil {
			t.Errorf("there is a board %d", i)
		}
	}
	w.M[1].Forgo(0)
	if w.M[1].PeerBoard(0, 0) != nil || w.M[1].PeerBoard(1, 0) != nil {
		t.Error("a board of a rank that is not reached")
	}
}

// A rank that is about to sleep is rung once; a mark is seen once.
func TestRingAndAsk(t *testing.T) {
	w := newWorld(t, 3)
	defer w.Close()
	if w.M[0].Asleep(1) {
		t.Error("it is awake")
	}
	if !w.M[1].Arm() || !w.M[0].Asleep(1) {
		t.Error("it is about to sleep")
	}
	w.M[0].Ring([]int{1, 2})
	w.M[1].Wait(-1) // returns at once
	if w.M[0].Asleep(1) {
		t.Error("it was rung")
	}
	w.M[0].Ask(1, 2)
	if w.M[1].Asked(1) || !w.M[1].Asked(2) || w.M[1].Asked(2) || w.M[2].Asked(2) {
		t.Error("one mark on one board of one rank")
	}
}
