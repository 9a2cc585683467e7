package machine

import (
	"slices"

	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
)

// Held is what a rank answers of one piece, whose sums it has just checked.
type Held struct {
	Name     Name            `json:"name"`
	Report   twoslots.Report `json:"report"`
	Complete twoslots.Cut    `json:"complete"` // the newest that it knows to be complete
}

// Where says who has a piece of the chosen epoch whole.
type Where struct {
	Name Name `json:"name"`
	Rank int  `json:"rank"`
}

// choice is what a census ends with.
type choice struct {
	life  uint32       // the newest that any member was told of
	cut   twoslots.Cut // to go on from; zero: nothing
	lost  twoslots.Cut // a newer one that was complete, of which too little is left
	where []Where
}

// answer is what a rank answers in a census.
type answer struct {
	life uint32       // of the description, which it has lived through until now; 0: it is new, or has come back
	said twoslots.Cut // the newest epoch of which it has said that all is whole here that it is to hold
	held []Held
}

// choose finds the epoch to go on from. It is the newest that can be made of what the ranks answer, announced or not, of which all that
// is left has all that it was to have. So a newer one that was under way does not count: of that, fewer copies may be left than
// the policy promises, and a second loss during the recovery would cost it and the committed one.
func choose(ranks int, answers []answer) choice {
	var c choice
	var known twoslots.Cut
	for _, a := range answers {
		for _, h := range a.held {
			c.life = max(c.life, h.Report.Life)
			for _, cut := range []twoslots.Cut{h.Complete, h.Report.From} {
				if cut.Compare(known) > 0 {
					known = cut
				}
			}
		}
	}
	under := func(cut twoslots.Cut) bool { // way: a member that has lived through it does not have it
		return cut.Compare(known) > 0 && slices.ContainsFunc(answers, func(a answer) bool { return a.life == c.life && a.said.Compare(cut) < 0 })
	}
	c.cut = newest(ranks, answers, under)
	if known.Compare(c.cut) > 0 {
		c.cut = newest(ranks, answers, func(twoslots.Cut) bool { return false })
	}
	if known.Compare(c.cut) > 0 {
		c.lost = known
	}
	if c.cut == (twoslots.Cut{}) {
		return c
	}
	for rank, a := range answers {
		for _, h := range a.held {
			if slices.Contains(h.Report.Whole, c.cut) {
				c.where = append(c.where, Where{h.Name, rank})
			}
		}
	}
	return c
}

// newest finds the newest epoch that can be made. Pieces are kept under the placement of their time: each way of grouping the ranks that
// occurs in the answers is looked at by itself.
func newest(ranks int, answers []answer, except func(twoslots.Cut) bool) (best twoslots.Cut) {
	left := make([][]Held, len(answers))
	for i, a := range answers {
		for _, h := range a.held {
			h.Report.Whole = slices.DeleteFunc(slices.Clone(h.Report.Whole), except)
			left[i] = append(left[i], h)
		}
	}
	for _, groups := range groupings(ranks, left) {
		images := make([]int, len(groups))
		for i, g := range groups {
			images[i] = len(g)
		}
		if cut, ok := twoslots.Newest(images, sorted(groups, left)); ok && cut.Compare(best) > 0 {
			best = cut
		}
	}
	return best
}

// groupings lists the ways in which pieces that are held group the ranks: each rank by itself, and the groups of parities, of which
// those that overlap are of different times.
func groupings(ranks int, answers [][]Held) [][][]int {
	alone := make([][]int, ranks)
	for r := range alone {
		alone[r] = []int{r}
	}
	all := [][][]int{alone}
	byCut := map[twoslots.Cut][][]int{}
	var order []twoslots.Cut
	for _, held := range answers {
		for _, h := range held {
			if h.Name.Parity == 0 {
				continue
			}
			for _, cut := range h.Report.Whole {
				if byCut[cut] == nil {
					order = append(order, cut)
				}
				byCut[cut] = append(byCut[cut], h.Name.Members())
			}
		}
	}
	for _, cut := range order {
		groups, in := [][]int(nil), make([]bool, ranks)
		for _, g := range byCut[cut] {
			if !slices.ContainsFunc(g, func(r int) bool { return r >= ranks || in[r] }) {
				groups = append(groups, g)
				for _, r := range g {
					in[r] = true
				}
			}
		}
		for r := range ranks {
			if !in[r] {
				groups = append(groups, []int{r})
			}
		}
		all = append(all, groups)
	}
	return all
}

// sorted puts answers in order under a grouping. Those that do not belong to it tell of lives all the same.
func sorted(groups [][]int, answers [][]Held) twoslots.Answers {
	place := map[Name]twoslots.Piece{}
	for i, g := range groups {
		for k, r := range g {
			place[Image(r)] = twoslots.Piece{Group: i, Index: k}
		}
	}
	a := twoslots.Answers{}
	for _, held := range answers {
		for _, h := range held {
			at, there := place[h.Name]
			if !there {
				at = twoslots.Piece{Group: -1}
				for i, g := range groups {
					if h.Name.Parity > 0 && join(g) == h.Name.Of {
						at = twoslots.Piece{Group: i, Index: len(g) + h.Name.Parity - 1}
					}
				}
			}
			a[at] = append(a[at], h.Report)
		}
	}
	return a
}
