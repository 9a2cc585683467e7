package protect

import (
	"errors"
	"fmt"
	"slices"
)

// Ring puts a replica of each image on the next nodes, so many.
type Ring int

func (r Ring) String() string {
	if r == 1 {
		return "ring"
	}
	return fmt.Sprintf("ring:%d", int(r))
}

// Promise implements Policy.
func (r Ring) Promise() Promise { return Promise{Nodes: int(r)} }

// Groups implements Policy.
func (r Ring) Groups(p Placement) ([]Group, error) {
	if err := r.fits(&p); err != nil {
		return nil, err
	}
	return replicas(p, func(n int) (to []int, err error) {
		for i := range int(r) {
			to = append(to, (n+1+i)%len(p.Nodes))
		}
		return to, nil
	})
}

func (r Ring) fits(p *Placement) error {
	if err := p.Check(); err != nil {
		return err
	}
	if r < 1 {
		return fmt.Errorf("policy %v: at least ring:1", r)
	}
	if len(p.Nodes) < int(r)+1 {
		return tooFew(r, len(p.Nodes), int(r)+1)
	}
	return nil
}

// Pairs makes pairs of nodes, each of which holds the replicas of the other. Of an odd number the last three
// are a ring.
type Pairs struct{}

func (Pairs) String() string { return "pairs" }

// Promise implements Policy.
func (Pairs) Promise() Promise { return Promise{Nodes: 1} }

// Groups implements Policy.
func (Pairs) Groups(p Placement) ([]Group, error) {
	if err := Ring(1).fits(&p); err != nil {
		return nil, err
	}
	n := len(p.Nodes)
	return replicas(p, func(i int) ([]int, error) {
		if first := n - 3; n%2 == 1 && i >= first {
			return []int{first + (i-first+1)%3}, nil
		}
		return []int{i ^ 1}, nil
	})
}

// OtherRack puts a replica of each image on a node of another rack.
type OtherRack struct{}

func (OtherRack) String() string { return "rack" }

// Promise implements Policy.
func (OtherRack) Promise() Promise { return Promise{Nodes: 1, Racks: 1} }

// Groups implements Policy. The nodes of each rack take turns.
func (o OtherRack) Groups(p Placement) ([]Group, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := racksKnown(&p); err != nil {
		return nil, err
	}
	l := newLoads(&p)
	return replicas(p, func(n int) ([]int, error) {
		to := l.take(func(m int) bool { return p.Nodes[m].Rack != p.Nodes[n].Rack })
		if to < 0 {
			return nil, fmt.Errorf("all nodes are in rack %q: policy rack needs two racks", p.Nodes[n].Rack)
		}
		return []int{to}, nil
	})
}

func racksKnown(p *Placement) error {
	for _, n := range p.Nodes {
		if n.Rack == "" {
			return fmt.Errorf("the rack of node %s is not known: name it in a file (-racks)", n.Name)
		}
	}
	return nil
}

// Func is a policy of the program's own: the nodes that hold a replica of a rank's image.
type Func struct {
	Name   string
	Copies int // that it gives each rank at least
	To     func(rank int, p Placement) []int
}

func (f Func) String() string { return f.Name }

// Promise implements Policy.
func (f Func) Promise() Promise { return Promise{Nodes: f.Copies} }

// Groups implements Policy. It refuses invalid answers of the function.
func (f Func) Groups(p Placement) ([]Group, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if f.To == nil {
		return nil, fmt.Errorf("policy %q: it has no function To", f.Name)
	}
	var groups []Group
	for rank := range p.Of {
		g := Group{Ranks: []int{rank}, Shards: slices.Clone(f.To(rank, p))}
		if len(g.Shards) < f.Copies {
			return nil, fmt.Errorf("policy %s: %d replicas of rank %d, and it promises %d", f.Name, len(g.Shards), rank, f.Copies)
		}
		groups = append(groups, g)
	}
	if err := CheckGroups(p, groups); err != nil {
		return nil, fmt.Errorf("policy %s: %w", f.Name, err)
	}
	return groups, nil
}

// Code protects the images of Data ranks by Parity shards. Racks puts all pieces of a group into
// distinct racks. If there are fewer nodes (or racks) than Data + Parity, groups have fewer ranks,
// and so cost more.
type Code struct {
	Data, Parity int
	Racks        bool
}

func (c Code) String() string {
	s := fmt.Sprintf("code:%d+%d", c.Data, c.Parity)
	if c.Racks {
		s += ":racks"
	}
	return s
}

// Promise implements Policy.
func (c Code) Promise() Promise {
	if c.Racks {
		return Promise{Nodes: c.Parity, Racks: c.Parity}
	}
	return Promise{Nodes: c.Parity}
}

// mostPieces is the largest group that a code over bytes allows.
const mostPieces = 256

// Groups implements Policy. Each group takes its ranks from the places that have most left, so that
// groups are as full as possible, and puts its shards on the nodes with the least load.
func (c Code) Groups(p Placement) ([]Group, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if c.Data < 1 || c.Parity < 1 || c.Data+c.Parity > mostPieces {
		return nil, fmt.Errorf("policy %v: at least 1+1, together at most %d", c, mostPieces)
	}
	apart, err := c.apart(&p)
	if err != nil {
		return nil, err
	}
	if len(apart) < c.Parity+1 {
		return nil, tooFew(c, len(apart), c.Parity+1)
	}
	size := min(c.Data, len(apart)-c.Parity)
	placeOf := make([]int, len(p.Nodes))
	for i, nodes := range apart {
		for _, n := range nodes {
			placeOf[n] = i
		}
	}
	left, l := p.byNode(), newLoads(&p)
	var groups []Group
	for {
		g := Group{}
		used := map[int]bool{} // places
		for _, place := range fullest(apart, left)[:size] {
			n := mostLeft(apart[place], left)
			if len(left[n]) == 0 {
				break
			}
			g.Ranks = append(g.Ranks, left[n][0])
			left[n] = left[n][1:]
			used[place] = true
		}
		if len(g.Ranks) == 0 {
			return groups, nil
		}
		for range c.Parity {
			n := l.take(func(m int) bool { return !used[placeOf[m]] })
			used[placeOf[n]] = true
			g.Shards = append(g.Shards, n)
		}
		groups = append(groups, g)
	}
}

// apart lists the nodes of each place, a node or a rack, from which a group may use one.
func (c Code) apart(p *Placement) (places [][]int, err error) {
	if !c.Racks {
		for n := range p.Nodes {
			places = append(places, []int{n})
		}
		return places, nil
	}
	if err := racksKnown(p); err != nil {
		return nil, err
	}
	at := map[string]int{}
	for n, node := range p.Nodes {
		i, there := at[node.Rack]
		if !there {
			i = len(places)
			at[node.Rack] = i
			places = append(places, nil)
		}
		places[i] = append(places[i], n)
	}
	return places, nil
}

// fullest orders places by the number of ranks that are left there.
func fullest(places [][]int, left [][]int) []int {
	ranks := func(place int) (n int) {
		for _, node := range places[place] {
			n += len(left[node])
		}
		return n
	}
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return ranks(b) - ranks(a) })
	return order
}

// mostLeft is the node of a place with most ranks left.
func mostLeft(place []int, left [][]int) int {
	return slices.MaxFunc(place, func(a, b int) int { return len(left[a]) - len(left[b]) })
}

// replicas makes a group of each rank. Its replicas go to the nodes chosen for its own node.
func replicas(p Placement, to func(node int) ([]int, error)) ([]Group, error) {
	var groups []Group
	for rank, n := range p.Of {
		nodes, err := to(n)
		if err != nil {
			return nil, err
		}
		groups = append(groups, Group{Ranks: []int{rank}, Shards: nodes})
	}
	return groups, nil
}

// loads counts what lies on each node.
type loads []int

func newLoads(p *Placement) loads { return make(loads, len(p.Nodes)) }

// take chooses the node with the least among those that may be taken, -1 if none may.
func (l loads) take(may func(node int) bool) int {
	best := -1
	for n := range l {
		if may(n) && (best < 0 || l[n] < l[best]) {
			best = n
		}
	}
	if best >= 0 {
		l[best]++
	}
	return best
}

// ErrTooFew is wrapped by errors about placements with too few nodes.
var ErrTooFew = errors.New("too few nodes")

func tooFew(p Policy, have, need int) error {
	what := "node(s)"
	if c, ok := p.(Code); ok && c.Racks {
		what = "rack(s)"
	}
	return fmt.Errorf("policy %v needs %d %s, and there are %d: %w", p, need, what, have, ErrTooFew)
}
