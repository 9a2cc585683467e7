package shmcoll

import (
	"slices"
	"testing"
)

// alone is a host that does not know which ranks share CPUs.
type alone struct{ Host }

func (alone) SharesCPU(int) bool { return true }

// halves is a host on which each half of the ranks shares a CPU.
type halves struct {
	Host
	rank, size int
}

func (h halves) SharesCPU(rank int) bool { return rank*2/h.size == h.rank*2/h.size }

// Members that share this rank's CPU are looked at first, beginning with the one whose line came
// late the last time. Then come the others. Each is looked at once.
func TestOrderOfLooks(t *testing.T) {
	members := []int{7, 0, 3, 5, 2, 6, 1, 4}
	for me, rank := range members {
		for _, host := range []Host{alone{}, halves{rank: rank, size: 8}} {
			team := &Team{set: &Set{host: host}, members: members, me: me, seats: make([]Seat, len(members))}
			team.arrange()
			same := 7
			if host != Host(alone{}) {
				same = 3
			}
			if team.sameCPU != same {
				t.Fatalf("rank %d: %d share its CPU", rank, team.sameCPU)
			}
			for late := range same {
				team.now = progress{ordered: true, first: team.late}
				var looked []int
				for k := range members {
					looked = append(looked, members[team.waitedFor(k)])
				}
				if looked[0] != members[team.order[late]] || looked[7] != rank {
					t.Errorf("rank %d: looks at %v", rank, looked)
				}
				for k, other := range looked {
					if host != Host(alone{}) && (k < same) != (host.SharesCPU(other) && other != rank) {
						t.Errorf("rank %d: looks at %v", rank, looked)
					}
				}
				slices.Sort(looked)
				if !slices.Equal(looked, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
					t.Errorf("rank %d: looks at %v", rank, looked)
				}
				if team.comesLate(1 % same); same > 1 && team.late != (late+1)%same {
					t.Errorf("rank %d: %d comes late, not %d", rank, team.late, (late+1)%same)
				}
			}
		}
	}
}

// The last rank on its CPU looks on for the others, but not in each turn after it has done so in
// vain. A rank that is not the last does not look on.
func TestLooksOn(t *testing.T) {
	team := &Team{members: []int{0, 1}, order: []int{1, 0}, seats: make([]Seat, 2), own: newMirror(lineSize), joined: true}
	other := newMirror(lineSize)
	team.seats[0].board, team.seats[1].board = team.own, other
	turn := func(there bool) (over bool) {
		if err := team.Begin(&Turn{}); err != nil {
			t.Fatal(err)
		}
		team.post()
		if there {
			other.at(team.turn).post(team.turn)
		}
		if over = team.LookOn(); !over {
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
	team.sameCPU = 1
	if turn(true) {
		t.Error("it looks on for one who shares its CPU")
	}
}
