package main

import (
	"encoding/binary"
	"log"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/bookmarks"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// headerBytes is the size of an out-of-band frame without data.
const headerBytes = 48

type job struct {
	schedule   string
	np, jitter int
	seed       uint64
	agent      int
	peers      func(rank, np int) []int // whom the rank has sent to
}

// run exchanges the bookmarks of one job.
func run(j job) result {
	res := result{schedule: j.schedule, np: j.np}
	start := time.Now()
	ranks := make([]*bookmarks.Exchange, j.np)
	for i := range ranks {
		sent := traffic(i, j.peers(i, j.np))
		if j.schedule == "staggered" {
			ranks[i] = bookmarks.Staggered(i, j.np, sent)
		} else {
			ranks[i] = bookmarks.Sparse(i, j.np, sent)
		}
	}
	if j.schedule != "staggered" {
		reduce(j, ranks, &res)
	}
	n := newNetwork(j)
	for i, x := range ranks {
		n.pull(i, x)
	}
	for n.flying > 0 || n.waiting > 0 {
		n.round(ranks)
	}
	for i, x := range ranks {
		if !x.Done() {
			log.Fatalf("%s, %d ranks: rank %d is not done, it waits for %s", j.schedule, j.np, i, x.Waiting())
		}
		check(j, i, x)
	}
	res.rounds, res.queue = n.now, n.queue
	res.messages += n.messages
	res.bytes += n.messages * headerBytes
	res.took = time.Since(start)
	return res
}

// traffic gives every pair a count of its own, beyond 32 bits.
func traffic(rank int, peers []int) bookmarks.Counts {
	c := make(bookmarks.Counts, 0, len(peers))
	for _, p := range peers {
		c = append(c, bookmarks.Count{Peer: p, Bytes: count(rank, p)})
	}
	return c
}

func count(from, to int) uint64 { return 1<<33 + uint64(from)<<8 ^ uint64(to) }

// check compares what a rank has learned with the truth: the relation of
// having talked is symmetric in all the jobs here.
func check(j job, rank int, x *bookmarks.Exchange) {
	peers := j.peers(rank, j.np)
	got := x.Expected()
	if len(got) != len(peers) {
		log.Fatalf("rank %d has %d bookmarks, not %d", rank, len(got), len(peers))
	}
	for i, p := range peers {
		if got[i] != (bookmarks.Count{Peer: p, Bytes: count(p, rank)}) {
			log.Fatalf("rank %d has %+v for rank %d", rank, got[i], p)
		}
	}
}

// reduce tells every rank how many senders it has, by way of agents and head.
func reduce(j job, ranks []*bookmarks.Exchange, res *result) {
	head := ckpt.NewDestSum(j.np)
	send := func(m oob.Msg) {
		res.messages++
		res.bytes += headerBytes + len(m.Data)
	}
	for first := 0; first < j.np; first += j.agent {
		n := min(j.agent, j.np-first)
		agent := ckpt.NewDestSum(n)
		for i := first; i < first+n; i++ {
			m := dests(i, j.peers(i, j.np))
			send(m)
			sum, done, err := agent.Add(m)
			if err != nil {
				log.Fatal(err)
			}
			if !done {
				continue
			}
			sum.From = oob.AgentAddr(first / j.agent)
			send(sum)
			if _, _, err := head.Add(sum); err != nil {
				log.Fatal(err)
			}
		}
	}
	for i, x := range ranks {
		send(oob.Msg{})
		if err := x.Senders(int(head.Senders(i))); err != nil {
			log.Fatal(err)
		}
	}
}

func dests(rank int, peers []int) oob.Msg {
	m := oob.Msg{Kind: oob.Dests, From: int32(rank), Attempt: 1, A: 1, Data: make([]byte, 0, 16*len(peers))}
	for _, p := range peers {
		m.Data = binary.LittleEndian.AppendUint64(m.Data, uint64(p))
		m.Data = binary.LittleEndian.AppendUint64(m.Data, 1)
	}
	return m
}

// network carries marks. Each is put into the list of the round in which it
// arrives; there it joins its receiver's queue.
type network struct {
	now      int
	arriving [][]bookmarks.Mark // ring, by round of arrival
	inbox    []inbox
	busy     []int32 // ranks with something in their inbox
	jitter   int
	rng      *rand.Rand
	flying   int
	waiting  int
	messages int
	queue    int
}

type inbox struct {
	marks []bookmarks.Mark
	taken int
}

func newNetwork(j job) *network {
	return &network{arriving: make([][]bookmarks.Mark, j.jitter+2), inbox: make([]inbox, j.np),
		jitter: j.jitter, rng: rand.New(rand.NewPCG(j.seed, uint64(j.np)))}
}

// pull sends what the rank has to send.
func (n *network) pull(rank int, x *bookmarks.Exchange) {
	for m, ok := x.Next(); ok; m, ok = x.Next() {
		at := (n.now + 1 + n.rng.IntN(n.jitter+1)) % len(n.arriving)
		n.arriving[at] = append(n.arriving[at], m)
		n.flying++
		n.messages++
	}
}

// round delivers what arrives now, then every rank takes one mark.
func (n *network) round(ranks []*bookmarks.Exchange) {
	n.now++
	slot := &n.arriving[n.now%len(n.arriving)]
	for _, m := range *slot {
		b := &n.inbox[m.To]
		if len(b.marks) == b.taken {
			b.marks, b.taken = b.marks[:0], 0
			n.busy = append(n.busy, int32(m.To))
		}
		b.marks = append(b.marks, m)
		n.queue = max(n.queue, len(b.marks)-b.taken+ranks[m.To].Queued())
	}
	n.flying -= len(*slot)
	n.waiting += len(*slot)
	*slot = (*slot)[:0]
	still := n.busy[:0]
	for _, rank := range n.busy {
		b := &n.inbox[rank]
		m := b.marks[b.taken]
		b.taken++
		n.waiting--
		if err := ranks[rank].Deliver(m.From, m.Sent); err != nil {
			log.Fatal(err)
		}
		n.pull(int(rank), ranks[rank])
		if b.taken < len(b.marks) {
			still = append(still, rank)
		}
	}
	n.busy = still
}

// grid returns the neighbours of a rank in a periodic three-dimensional grid.
func grid(rank, np int) []int {
	x, y := sides(np)
	z := np / (x * y)
	i, j, k := rank%x, rank/x%y, rank/(x*y)
	at := func(i, j, k int) int { return (i+x)%x + x*((j+y)%y) + x*y*((k+z)%z) }
	peers := []int{at(i-1, j, k), at(i+1, j, k), at(i, j-1, k), at(i, j+1, k), at(i, j, k-1), at(i, j, k+1)}
	slices.Sort(peers)
	peers = slices.Compact(peers)
	return slices.DeleteFunc(peers, func(p int) bool { return p == rank })
}

// sides returns two sides of the most cubic grid of np ranks.
func sides(np int) (x, y int) {
	x, y = 1, 1
	for d := 1; d*d*d <= np; d++ {
		if np%d == 0 {
			x = d
		}
	}
	for d := 1; d*d <= np/x; d++ {
		if np/x%d == 0 {
			y = d
		}
	}
	return x, y
}

func all(rank, np int) []int {
	peers := make([]int, 0, np-1)
	for p := range np {
		if p != rank {
			peers = append(peers, p)
		}
	}
	return peers
}
