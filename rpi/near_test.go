package rpi

import (
	"slices"
	"testing"
)

// halves are homes of which each is that of half of the ranks.
type halves struct{ rank, size int }

func (h halves) Go() bool           { return false }
func (h halves) Back()              {}
func (h halves) Near(rank int) bool { return rank*2/h.size == h.rank*2/h.size }

// Those who share a CPU are looked at first, from the one on whose line came late the last
// time, then the others, each once.
func TestOrderOfLooks(t *testing.T) {
	members := []int{7, 0, 3, 5, 2, 6, 1, 4}
	for me, rank := range members {
		for _, home := range []Home{nil, halves{rank, 8}} {
			team := &Team{e: &Engine{home: homing{Home: home}}, members: members, me: me, seats: make([]seat, len(members))}
			team.arrange()
			near := 7
			if home != nil {
				near = 3
			}
			if team.near != near {
				t.Fatalf("rank %d: %d are near", rank, team.near)
			}
			for late := range near {
				team.now = progress{near: true, first: team.late}
				var looked []int
				for k := range members {
					looked = append(looked, members[team.waitedFor(k)])
				}
				if looked[0] != members[team.order[late]] || looked[7] != rank {
					t.Errorf("rank %d: looks at %v", rank, looked)
				}
				for k, other := range looked {
					if home != nil && (k < near) != (home.Near(other) && other != rank) {
						t.Errorf("rank %d: looks at %v", rank, looked)
					}
				}
				slices.Sort(looked)
				if !slices.Equal(looked, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
					t.Errorf("rank %d: looks at %v", rank, looked)
				}
				if team.comesLate(1 % near); near > 1 && team.late != (late+1)%near {
					t.Errorf("rank %d: %d comes late, not %d", rank, team.late, (late+1)%near)
				}
			}
		}
	}
}

// Who is the last on its CPU looks on for the others, and after it has done so in vain not
// in each turn; who is not the last does not.
func TestLooksOn(t *testing.T) {
	team := &Team{e: &Engine{}, members: []int{0, 1}, order: []int{1, 0}, seats: make([]seat, 2), own: newMirror(lineSize), joined: true}
	other := newMirror(lineSize)
	team.seats[0].board, team.seats[1].board = team.own, other
	turn := func(there bool) (over bool) {
		if err := team.begin(&Turn{}); err != nil {
			t.Fatal(err)
		}
		team.post()
		if there {
			other.at(team.turn).post(team.turn)
		}
		if over = team.lookOn(); !over {
			other.at(team.turn).post(team.turn)
			if !team.read() {
				t.Fatal("a turn is not over when all lines are there")
			}
		}
		team.now.busy = false
		return over
	}
	if !turn(true) || !turn(true) {
		t.Error("it does not look on")
	}
	for _, pause := range []int{1, 3, 7, 15, 31, 63, 63} {
		if turn(false) {
			t.Error("a turn is over without a line")
		}
		for i := range pause {
			if turn(true) {
				t.Errorf("it looks on %d turns after having done so in vain, not %d", i+1, pause+1)
			}
		}
	}
	if !turn(true) || !turn(true) {
		t.Error("it does not look on again")
	}
	team.near = 1
	if turn(true) {
		t.Error("it looks on for one who shares its CPU")
	}
}
