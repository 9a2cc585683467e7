package mirror

import "github.com/gorun-mpi/gorun/internal/storage/protect"

// A Policy says which nodes hold the pieces that are needed when others are lost. It is a pure
// function of which rank is on which node, and never uses a rank's own node. It promises how many
// nodes may be lost at once. Where there are too few nodes for the promise it is an error, never
// less protection.
//
// The methods are String, Promise and Groups(Placement) ([]Group, error). A group is ranks whose images are protected together by shards on
// other nodes: a group of one rank by replicas, of several by parity. Func is the easy way to one's own.
type Policy = protect.Policy

// Parts of a policy of one's own.
type (
	Placement = protect.Placement // the nodes, and by rank the index of its node
	Node      = protect.Node      // name and rack
	Group     = protect.Group     // ranks, and the node of each shard
	Promise   = protect.Promise   // how many nodes, or racks, may be lost at once
)

// The policies.
type (
	// Ring(k) puts a replica of each image on each of the next k nodes. Any k nodes may be lost.
	Ring = protect.Ring
	// Pairs{} makes pairs of nodes that hold each other's replicas. One node may be lost, and one of each pair.
	Pairs = protect.Pairs
	// OtherRack{} puts a replica on a node of another rack. A node or all of a rack may be lost.
	OtherRack = protect.OtherRack
	// Func{Name, Copies, To} is a function of the program's own, To(rank, placement): the nodes that hold replicas.
	Func = protect.Func
	// Code{Data, Parity, Racks} protects the images of Data ranks by Parity shards (Reed-Solomon). Any Parity nodes may be lost, at the cost of
	// Parity/Data of the memory that Ring(Parity) needs. With Racks, any Parity racks.
	Code = protect.Code
)

// None is the policy that protects nothing: each image is on its rank's own node only. With a Target on disk it survives the
// program's end, not the loss of a node.
type None struct{}

func (None) String() string { return "none" }

// Promise implements Policy.
func (None) Promise() Promise { return Promise{} }

// Groups implements Policy.
func (None) Groups(p Placement) (groups []Group, err error) {
	for rank := range p.Of {
		groups = append(groups, Group{Ranks: []int{rank}})
	}
	return groups, p.Check()
}

// placement is a policy's view of a life. Its nodes are in the order of their first rank, so a spare that takes the place of a lost
// node leaves the others where they are.
func placement(ranks []Place) (p Placement) {
	at := map[string]int{}
	for _, r := range ranks {
		i, there := at[r.Node]
		if !there {
			i = len(p.Nodes)
			at[r.Node] = i
			p.Nodes = append(p.Nodes, Node{Name: r.Node, Rack: r.Rack})
		}
		p.Of = append(p.Of, i)
	}
	return p
}
