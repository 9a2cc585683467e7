package hosts

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestMove(t *testing.T) {
	n := func(name string, slots int) NodeState {
		return NodeState{Node: Node{Name: name, Slots: slots, SlotsGiven: true}, Up: true}
	}
	down := n("d", 4)
	down.Up = false
	nodes := []NodeState{n("a", 4), n("b", 2), n("c", 2), n("s", 1), down}
	placed := [][]int{{0, 1, 2}, {3, 4}, {5}, nil, nil}
	for _, x := range []struct {
		ranks []int
		to    int
		want  string // or what the error says
	}{
		{[]int{4}, 2, "[[0 1 2] [3] [4 5] [] []]"},
		{[]int{4}, 1, "[[0 1 2] [3 4] [5] [] []]"},
		{[]int{4}, -1, "[[0 1 2] [3] [5] [4] []]"},              // the spare
		{[]int{4, 3}, -1, "[[0 1 2] [] [4 5] [3] []]"},          // more than it has room for
		{[]int{0, 1, 2}, -1, "no node but those"},               // a slot is missing
		{[]int{0, 5}, -1, "no node but those"},                  // both leave
		{[]int{0, 1, 2}, 2, "node c takes 2 at most and has 1"}, // without room
		{[]int{0}, 4, "node d cannot be used"},
	} {
		got, err := Move(nodes, placed, x.ranks, x.to, Rules{})
		if err != nil && (!strings.Contains(err.Error(), x.want) || !errors.Is(err, ErrSlots) && !errors.Is(err, ErrNodes)) || err == nil && fmt.Sprint(got) != x.want {
			t.Errorf("ranks %v to %d: %v, %v, want %s", x.ranks, x.to, got, err, x.want)
		}
	}
	if fmt.Sprint(placed) != "[[0 1 2] [3 4] [5] [] []]" {
		t.Errorf("what is placed has changed: %v", placed)
	}
	if got, err := Move(nodes, placed, []int{0, 1, 2}, 2, Rules{Oversubscribe: true}); err != nil || fmt.Sprint(got) != "[[] [3 4] [0 1 2 5] [] []]" {
		t.Errorf("with -oversubscribe: %v, %v", got, err)
	}
}
