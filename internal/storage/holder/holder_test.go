package holder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/protect"
)

const set = "job/1"

// nodes are the memories of a job's nodes.
type nodes struct {
	t      *rapid.T
	p      protect.Placement
	memory []*mem.Memory
	digest []string // by rank
	bytes  [][]byte
	lost   map[int]bool
}

func (n *nodes) fatal(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func piece(rank int) string { return fmt.Sprintf("rank-%05d.img", rank) }

// peers are all nodes but one, and but those that are lost.
func (n *nodes) peers(but int) (all []node.Peer) {
	for i, m := range n.memory {
		if i != but && !n.lost[i] {
			all = append(all, node.Peer{Node: n.p.Nodes[i].Name, Files: m})
		}
	}
	return all
}

type reached []node.Peer

func (r reached) Peers() ([]node.Peer, []string) { return r, nil }

// on is the store as a node sees it.
func (n *nodes) on(i int) *node.Store {
	return mem.Open(n.p.Nodes[i].Name, n.memory[i], reached(n.peers(i)))
}

// write has each rank write an image on its node, of any size.
func (n *nodes) write() {
	for rank, at := range n.p.Of {
		ctx := n.t.Context()
		_ = n.memory[at].Begin(ctx, set)
		size := rapid.IntRange(0, 5000).Draw(n.t, "size")
		w, err := n.memory[at].Create(ctx, set, piece(rank), store.Options{Size: int64(size)})
		n.fatal(err)
		img, err := image.NewWriter(w, piece(rank), image.LocalMeta(), image.Options{Workers: 1, BlockSize: 4096})
		n.fatal(err)
		data := make([]byte, size)
		rng := rand.New(rand.NewPCG(uint64(rank), 1))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		n.fatal(img.Section("x", "data", "", data))
		sum, err := img.Commit()
		n.fatal(err)
		n.digest = append(n.digest, sum.Digest)
	}
}

// obey has every node make what the groups give it, by orders as the head gives them.
func (n *nodes) obey(groups []protect.Group) {
	for _, g := range groups {
		for shard, to := range g.Shards {
			c := NewCopier(n.memory[to], n.p.Nodes[to].Name)
			n.fatal(c.Copy(n.t.Context(), n.order(&g, shard), n.peers(to)...))
		}
	}
}

func (n *nodes) order(g *protect.Group, shard int) *wire.Copy {
	from := func(rank int) []wire.Source { return []wire.Source{{Node: n.p.Nodes[n.p.Of[rank]].Name}} }
	if len(g.Ranks) == 1 {
		return &wire.Copy{Set: set, Piece: piece(g.Ranks[0]), Digest: n.digest[g.Ranks[0]], From: from(g.Ranks[0])}
	}
	o := &wire.Copy{Set: set, Parity: &wire.Parity{Shards: len(g.Shards), Shard: shard}}
	for _, rank := range g.Ranks {
		o.Parity.Images = append(o.Parity.Images, wire.OneOfMany{Piece: piece(rank), Size: int64(len(n.bytes[rank])), Digest: n.digest[rank], From: from(rank)})
	}
	return o
}

// read reads an image where a rank has written it.
func (n *nodes) read(s store.Reading, rank int) []byte {
	r, err := s.Open(n.t.Context(), set, piece(rank))
	n.fatal(err)
	defer r.Close()
	p, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	n.fatal(err)
	return p
}

// TestAnyLoss: from every placement, and whichever nodes are lost of as many as a policy promises, every image is had again on any node
// that is left, byte for byte; the head finds it whole before, without a byte of it.
func TestAnyLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom([]protect.Policy{
			protect.Ring(2), protect.Pairs{}, protect.Code{Data: 2, Parity: 1}, protect.Code{Data: 2, Parity: 2}, protect.Code{Data: 4, Parity: 2}, protect.Code{Data: 3, Parity: 3},
		}).Draw(t, "policy")
		lose := policy.Promise().Nodes
		n := &nodes{t: t, lost: map[int]bool{}}
		for i := range rapid.IntRange(lose+1, 7).Draw(t, "nodes") {
			n.p.Nodes = append(n.p.Nodes, protect.Node{Name: fmt.Sprint("n", i)})
			m := mem.New(nil)
			defer m.Close()
			n.memory = append(n.memory, m)
		}
		for range rapid.IntRange(1, 8).Draw(t, "ranks") {
			n.p.Of = append(n.p.Of, rapid.IntRange(0, len(n.p.Nodes)-1).Draw(t, "on"))
		}
		n.write()
		for rank, at := range n.p.Of {
			n.bytes = append(n.bytes, n.read(n.memory[at], rank))
		}
		groups, err := policy.Groups(n.p)
		n.fatal(err)
		n.obey(groups)
		left := rapid.Permutation(indices(len(n.p.Nodes))).Draw(t, "order of loss")
		for _, i := range left[:lose] {
			n.lost[i] = true
		}
		for rank := range n.p.Of {
			n.restore(rank, left[lose:])
		}
	})
}

// restore has an image fetched on one of the nodes that are left.
func (n *nodes) restore(rank int, left []int) {
	at := rapid.SampledFrom(left).Draw(n.t, "restored on")
	ctx := n.t.Context()
	head := mem.Open("head", nil, reached(n.peers(-1)))
	size, digest, _, err := head.Check(ctx, set, piece(rank), true)
	n.fatal(err)
	if size != int64(len(n.bytes[rank])) || digest != n.digest[rank] {
		n.t.Fatalf("rank %d: found with %d bytes and digest %s", rank, size, digest)
	}
	r, err := head.OpenGood(ctx, set, piece(rank), n.digest[rank])
	n.fatal(err)
	n.fatal(errors.Join(node.Image(n.digest[rank])(r, r.Size()), r.Close()))
	_, err = n.on(at).Fetch(ctx, set, piece(rank), node.Image(n.digest[rank]), nil)
	n.fatal(err)
	if got := n.read(n.memory[at], rank); !bytes.Equal(got, n.bytes[rank]) {
		n.t.Fatalf("rank %d comes back with other bytes", rank)
	}
}

func indices(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return slices.Clip(all)
}
