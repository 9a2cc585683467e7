package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/job/hosts"
)

// Ranks that move to other nodes within a life: agents beside those that the life has.

// Plan says where moving ranks go.
type Plan struct {
	Ranks  []int // that move
	placed [][]int
	to     map[int][]int
	off    int // the node that all ranks leave for good; -1: none
}

// PlanMove decides where ranks go: to a node if one is named, else to nodes with room. off names a
// node that all its ranks leave.
func (f *Fleet) PlanMove(ranks []int, to, off string) (*Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &Plan{Ranks: slices.Clone(ranks), off: -1, to: map[int][]int{}}
	target := -1
	var err error
	if off != "" {
		if p.off, err = f.numberOf(off); err != nil {
			return nil, err
		}
		p.Ranks = slices.Clone(f.placed[p.off])
	}
	if to != "" {
		if target, err = f.numberOf(to); err != nil {
			return nil, err
		}
		if n := f.nodes[target]; !n.usable() {
			return nil, fmt.Errorf("node %s cannot be used: it is %v (%v); gorun join brings it back", n.Name, n.state, n.err)
		}
	}
	if target >= 0 && target == p.off {
		return nil, fmt.Errorf("node %s cannot be left and taken", to)
	}
	states := f.states()
	if p.off >= 0 {
		states[p.off].Up = false
	}
	if p.placed, err = hosts.Move(states, f.placed, p.Ranks, target, f.cfg.Rules); err != nil {
		return nil, err
	}
	p.Ranks = nil // but for those that are there already
	for i, now := range p.placed {
		for _, rank := range now {
			if !slices.Contains(f.placed[i], rank) {
				p.to[i] = append(p.to[i], rank)
				p.Ranks = append(p.Ranks, rank)
			}
		}
	}
	slices.Sort(p.Ranks)
	return p, nil
}

// numberOf finds a node by its name.
func (f *Fleet) numberOf(name string) (int, error) {
	i := slices.IndexFunc(f.nodes, func(n *node) bool { return n.Name == name || n.own && name == "localhost" })
	if i < 0 {
		return 0, fmt.Errorf("%s is no node of the job, which has %s: gorun join brings more", name, strings.Join(f.names(), ", "))
	}
	return i, nil
}

// BeginMove starts the agents for ranks that move, with numbers from first on. Those that were started are returned with an
// error, too.
func (f *Fleet) BeginMove(ctx context.Context, life, first int, p *Plan) ([]*Agent, error) {
	var all []*Agent
	f.mu.Lock()
	for i, n := range f.nodes {
		if ranks := p.to[i]; len(ranks) > 0 {
			all = append(all, &Agent{Ranks: ranks, node: n, Node: i, ended: make(chan struct{})})
		}
	}
	f.mu.Unlock()
	return startAll(ctx, all, first, life)
}

// Moved records that ranks have moved. A later life leaves them there. A node that was left for
// good is not used any more, until it joins again.
func (f *Fleet) Moved(p *Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	placed := slices.Clone(f.placed) // nodes may have joined meanwhile
	for i := range p.placed {
		placed[i] = p.placed[i]
	}
	f.placed = placed
	f.guests = slices.DeleteFunc(slices.Clone(f.guests), func(rank int) bool { return slices.Contains(p.Ranks, rank) })
	if p.off >= 0 {
		n := f.nodes[p.off]
		n.out, n.err = true, errors.New("gorun migrate -off has taken it out; gorun join brings it back")
	}
}

// Where tells which ranks are on which node after the move, for people.
func (f *Fleet) Where(p *Plan) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var parts []string
	for i, n := range f.nodes {
		if ranks := p.to[i]; len(ranks) > 0 {
			parts = append(parts, fmt.Sprintf("%s on %s", listed(ranks), n.Name))
		}
	}
	return strings.Join(parts, ", ")
}

func listed(ranks []int) string {
	word := "rank "
	if len(ranks) > 1 {
		word = "ranks "
	}
	return word + strings.Trim(strings.ReplaceAll(fmt.Sprint(ranks), " ", ","), "[]")
}
