package tcpworld

import (
	"fmt"
	"slices"
	"strings"
)

// membership is the coordinator's decisions: a pure state machine, without connections or clocks.
type membership struct {
	size    int
	life    uint32
	members map[int]*member // by the number of their connection
	ranks   []int           // by rank: the member, -1 if lost
	left    map[int]bool    // ranks whose function has ended well in this life
	failed  *leave          // the first that has not
	over    bool
}

type member struct {
	rank int // -1: a spare
	at   place
}

// place is what a member tells of itself.
type place struct {
	Node string `json:"node"`
	Rack string `json:"rack,omitempty"`
	Addr string `json:"addr"` // where others reach it
}

// leave is how the function of a rank has ended.
type leave struct {
	Life uint32 `json:"life"`
	Rank int    `json:"rank"`
	Text string `json:"text,omitempty"` // "": well
}

// What the coordinator is to do.
type (
	// tellLost: ranks of this life are lost.
	tellLost struct {
		life uint32
		text string
	}
	// tellLife: a life begins, for all members.
	tellLife struct{ life uint32 }
	// tellOver: the world has ended, well if text is empty.
	tellOver struct{ text string }
	// waitSpare: call noSpare if the life has not changed after a time.
	waitSpare struct{ life uint32 }
	// waitCause: call noCause if the life has not changed after a time: a function has failed, perhaps because a rank was lost.
	waitCause struct{ life uint32 }
)

func newMembership(size int) *membership {
	m := &membership{size: size, members: map[int]*member{}, left: map[int]bool{}}
	for range size {
		m.ranks = append(m.ranks, -1)
	}
	return m
}

// joined takes a new member.
func (m *membership) joined(id int, at place) []any {
	m.members[id] = &member{rank: -1, at: at}
	if m.over {
		return nil
	}
	return m.fill()
}

// gone gives a member up.
func (m *membership) gone(id int) []any {
	who := m.members[id]
	delete(m.members, id)
	if who == nil || who.rank < 0 || m.over {
		return nil
	}
	m.ranks[who.rank] = -1
	m.left, m.failed = map[int]bool{}, nil
	actions := []any{tellLost{m.life, fmt.Sprintf("rank %d on node %s was lost", who.rank, who.at.Node)}}
	if filled := m.fill(); filled != nil {
		return append(actions, filled...)
	}
	return append(actions, waitSpare{m.life})
}

// fill begins a life if there is a member for each rank.
func (m *membership) fill() []any {
	spares, vacant := 0, 0
	for _, who := range m.members {
		if who.rank < 0 {
			spares++
		}
	}
	for _, id := range m.ranks {
		if id < 0 {
			vacant++
		}
	}
	if vacant == 0 || spares < vacant {
		return nil
	}
	for rank, id := range m.ranks {
		if id < 0 {
			id = m.spare()
			m.ranks[rank] = id
			m.members[id].rank = rank
		}
	}
	m.life++
	return []any{tellLife{m.life}}
}

// spare is the one to use next: on a node without ranks if there is one, and of those the one that came first.
func (m *membership) spare() int {
	best, bestUsed := -1, false
	ids := make([]int, 0, len(m.members))
	for id := range m.members {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		who := m.members[id]
		if who.rank >= 0 {
			continue
		}
		if used := m.uses(who.at.Node); best < 0 || bestUsed && !used {
			best, bestUsed = id, used
		}
	}
	return best
}

// uses reports whether a rank is on a node.
func (m *membership) uses(node string) bool {
	for _, who := range m.members {
		if who.rank >= 0 && who.at.Node == node {
			return true
		}
	}
	return false
}

// leaves records that the function of a member has ended.
func (m *membership) leaves(id int, l leave) []any {
	who := m.members[id]
	if who == nil || who.rank < 0 || l.Life != m.life || m.over || slices.Contains(m.ranks, -1) {
		return nil
	}
	if l.Text != "" {
		if m.failed != nil {
			return nil
		}
		m.failed = &leave{l.Life, who.rank, l.Text}
		return []any{waitCause{m.life}}
	}
	m.left[who.rank] = true
	if len(m.left) < m.size {
		return nil
	}
	m.over = true
	return []any{tellOver{}}
}

// noSpare says that the time for a spare is over.
func (m *membership) noSpare(life uint32) []any {
	if life != m.life || m.over || !slices.Contains(m.ranks, -1) {
		return nil
	}
	var lost []string
	for rank, id := range m.ranks {
		if id < 0 {
			lost = append(lost, fmt.Sprint(rank))
		}
	}
	m.over = true
	return []any{tellOver{fmt.Sprintf("no spare for rank %s: start more members than ranks", strings.Join(lost, ", "))}}
}

// noCause says that a function has failed and no member was lost.
func (m *membership) noCause(life uint32) []any {
	if life != m.life || m.over || m.failed == nil {
		return nil
	}
	m.over = true
	return []any{tellOver{fmt.Sprintf("rank %d: %s", m.failed.Rank, m.failed.Text)}}
}

// view describes the present life to a member.
func (m *membership) view(id int) view {
	v := view{Life: m.life, Rank: -1}
	if who := m.members[id]; who != nil {
		v.Rank = who.rank
	}
	for _, id := range m.ranks {
		v.Ranks = append(v.Ranks, m.members[id].at)
	}
	return v
}

// view describes a life to a member.
type view struct {
	Life  uint32  `json:"life"`
	Rank  int     `json:"rank"`
	Ranks []place `json:"ranks"`
}
