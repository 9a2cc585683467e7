package machine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/storage/protect"
)

// Name names a piece by what it is made of, not by who has it: the same piece has the same name under every placement.
type Name struct {
	Of     string `json:"of"`          // the ranks whose images it is made of, as in "3" or "0,2,5"
	Parity int    `json:"p,omitempty"` // 0: the image of the one rank; k: the k-th parity of several
}

func (n Name) String() string {
	if n.Parity == 0 {
		return "the image of rank " + n.Of
	}
	return fmt.Sprintf("parity %d of ranks %s", n.Parity, n.Of)
}

// Image is the name of a rank's image.
func Image(rank int) Name { return Name{Of: fmt.Sprint(rank)} }

// Members are the ranks whose images the piece is made of, nil if the name is none.
func (n Name) Members() (ranks []int) {
	last := -1
	for s := range strings.SplitSeq(n.Of, ",") {
		var rank int
		if _, err := fmt.Sscanf(s, "%d", &rank); err != nil || fmt.Sprint(rank) != s || rank <= last || n.Parity < 0 {
			return nil
		}
		last = rank
		ranks = append(ranks, rank)
	}
	if (len(ranks) == 1) != (n.Parity == 0) {
		return nil
	}
	return ranks
}

// Plan says which rank holds which pieces. All ranks compute the same one.
type Plan struct {
	Ranks  int
	Policy string
	Groups []Group
}

// Group is ranks whose images are protected together.
type Group struct {
	Ranks   []int // ascending
	Pieces  []Name
	Holders []int // the rank that holds each of Pieces
}

// NewPlan lays a policy out over ranks. A piece that belongs on a node is held by one of the ranks there.
func NewPlan(p protect.Placement, policy protect.Policy) (*Plan, error) {
	groups, err := policy.Groups(p)
	if err != nil {
		return nil, err
	}
	if err := protect.CheckGroups(p, groups); err != nil {
		return nil, fmt.Errorf("policy %v: %w", policy, err)
	}
	on := make([][]int, len(p.Nodes))
	for rank, n := range p.Of {
		on[n] = append(on[n], rank)
	}
	plan := &Plan{Ranks: len(p.Of), Policy: policy.String()}
	for i, g := range groups {
		ranks := slices.Sorted(slices.Values(g.Ranks))
		out := Group{Ranks: ranks}
		for k, n := range g.Shards {
			if len(on[n]) == 0 {
				return nil, fmt.Errorf("policy %v: nobody is on node %s, which is to hold a piece", policy, p.Nodes[n].Name)
			}
			out.Pieces = append(out.Pieces, pieceOf(ranks, k))
			out.Holders = append(out.Holders, on[n][i%len(on[n])])
		}
		plan.Groups = append(plan.Groups, out)
	}
	return plan, nil
}

func pieceOf(ranks []int, k int) Name {
	if len(ranks) == 1 {
		return Image(ranks[0])
	}
	return Name{Of: join(ranks), Parity: k + 1}
}

func join(ranks []int) string {
	var b strings.Builder
	for i, r := range ranks {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, r)
	}
	return b.String()
}

// Held lists the pieces that a rank holds, its own image first.
func (p *Plan) Held(rank int) []Name {
	held := []Name{Image(rank)}
	for _, g := range p.Groups {
		for i, h := range g.Holders {
			if h == rank {
				held = append(held, g.Pieces[i])
			}
		}
	}
	return held
}

// Target is where a rank sends its image: to whom, and what it becomes a part of there.
type Target struct {
	To   int
	Name Name
	Part int
}

// Targets lists where a rank sends its image.
func (p *Plan) Targets(rank int) (to []Target) {
	for _, g := range p.Groups {
		part := slices.Index(g.Ranks, rank)
		if part < 0 {
			continue
		}
		for i, h := range g.Holders {
			to = append(to, Target{h, g.Pieces[i], part})
		}
	}
	return to
}
