package mpi

import (
	"sync"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/job"
)

// The table of internal/rank/coll tells which algorithm a collective uses. The choice depends only on what all ranks
// agree on, never on a local length. It is made once for each shape of a communicator, from what is known when
// the program begins: after a restart from native images, ranks may be in the middle of a call.

// families are the names in the table of collectives that have a choice.
var families = [kinds]string{
	kindBarrier: "barrier", kindBcast: "bcast", kindReduce: "reduce", kindAllreduce: "allreduce",
	kindGather: "gather", kindScatter: "scatter",
	kindAllgather: "allgather", kindSplit: "allgather", kindCreate: "allgather", kindMerge: "allgather", kindCart: "allgather", kindGraph: "allgather",
	kindAllgatherv: "allgatherv",
	kindAlltoall:   "alltoall", kindAlltoallv: "alltoallv", kindAlltoallw: "alltoallv",
	kindScan: "scan", kindExscan: "scan",
	kindReduceScatter: "reduce_scatter", kindReduceScatterBlock: "reduce_scatter",
}

// chooser is what a rank chooses its algorithms by.
type chooser struct {
	table   coll.Table
	hosts   []int                 // of each rank of the world, numbered
	crowded bool                  // more ranks than CPUs on some host
	origin  func() ([]int, error) // as hosts, but of the run that communicators come from

	mu    sync.Mutex
	plans map[coll.Shape]*plans
}

type plans [kinds]coll.Plan

// init reads the table; an error names a parameter.
func (h *chooser) init(j *job.Job) (err error) {
	h.plans = map[coll.Shape]*plans{}
	h.hosts, h.origin = j.Nodes(), j.Origin
	h.crowded = j.Crowded()
	h.table, err = coll.BuiltIn().With(j.Params())
	return err
}

// plansFor returns the choices for communicators of a shape.
func (h *chooser) plansFor(ranks, nodes int) *plans {
	s := coll.Shape{Ranks: ranks, Nodes: nodes, Crowded: h.crowded}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.plans[s]
	if p == nil {
		p = plansOf(h.table, s)
		h.plans[s] = p
	}
	return p
}

func plansOf(t coll.Table, s coll.Shape) *plans {
	p := new(plans)
	for k, name := range families {
		if name != "" {
			p[k] = t.Plan(name, s)
		}
	}
	return p
}

// choose returns the rule for this call. An error is the call's own error: the ranks of a node exchange
// messages to make a team.
func (x *collective) choose(bytes int) (*coll.Rule, error) {
	s := &x.c.coll
	if s.plans == nil {
		s.nodes = nodesOf(x.c.core)
		if h := &x.c.env.chooser; x.c.table == nil {
			s.plans = h.plansFor(x.c.size, s.nodes.count())
		} else {
			s.plans = plansOf(x.c.table, coll.Shape{Ranks: x.c.size, Nodes: s.nodes.count(), Crowded: h.crowded})
		}
	}
	r := s.plans[x.kind].For(bytes)
	if r.Algorithm != coll.Shared && r.Algorithm != coll.Levels {
		return r, nil
	}
	ok, err := x.joined()
	if err == nil && r.Algorithm == coll.Shared && !(ok && s.nodes == nil && x.leastPiece() <= s.team.Piece()) {
		r = s.plans[x.kind].Instead(bytes)
	}
	return r, err
}

// nodes says which ranks of a communicator share a node.
type nodes struct {
	of    []int   // by rank: the node's number, in the order of their first ranks
	ranks [][]int // by node, rising
}

// nodesOf returns nil if all are on one.
func nodesOf(c *core) *nodes {
	hosts := c.env.chooser.hosts
	s := &nodes{of: make([]int, c.size)}
	number := map[int]int{}
	for r := range c.size {
		h := hosts[c.toWorld(r)]
		k, ok := number[h]
		if !ok {
			k = len(s.ranks)
			number[h] = k
			s.ranks = append(s.ranks, nil)
		}
		s.of[r] = k
		s.ranks[k] = append(s.ranks[k], r)
	}
	if len(s.ranks) == 1 {
		return nil
	}
	return s
}

func (s *nodes) count() int {
	if s == nil {
		return 1
	}
	return len(s.ranks)
}
