package joblife

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// TestScale takes the head of a job on many nodes through start, wire-up, a checkpoint and the
// end, and its agents' sums with it: the shipped ones, fed with the frames that ranks send. What
// the head keeps must not grow faster than the number of ranks. With -v it tells the rounds, the
// bytes, and the longest queue to one agent. GORUN_SCALE_NODES=4096 GORUN_SCALE_RANKS=64 is a
// large job.
func TestScale(t *testing.T) {
	nodes, per := testenv.Number(t, "GORUN_SCALE_NODES", 512), testenv.Number(t, "GORUN_SCALE_RANKS", 8)
	for _, byNode := range []bool{false, true} {
		t.Run(fmt.Sprintf("round robin %t", byNode), func(t *testing.T) {
			small := newScale(t, nodes/4, per, byNode).run()
			s := newScale(t, nodes, per, byNode)
			large := s.run()
			t.Logf("%d nodes x %d ranks: %.0f bytes a rank at the head, with a quarter of the nodes %.0f\n%s", nodes, per, large, small, s.log)
			if large > 1.3*small {
				t.Errorf("the head keeps %.0f bytes a rank with %d ranks, and %.0f with %d", large, nodes*per, small, nodes*per/4)
			}
		})
	}
}

// scale is such a job.
type scale struct {
	t             *testing.T
	j             *Job
	nodes, per, n int
	byNode        bool // ranks are dealt out to the nodes one by one
	agents        []Agent

	queue, peak int // bytes to one agent, in one step: the most
	burst       []int
	all         int // bytes to all, in one step: the most
	rounds      int // steps in which every agent was sent something
	out, in     int64
	frames      int64
	answers     []ckpt.HeadAction
	ended       bool
	log         string
}

func newScale(t *testing.T, nodes, per int, byNode bool) *scale {
	s := &scale{t: t, nodes: nodes, per: per, n: nodes * per, byNode: byNode, burst: make([]int, nodes), agents: make([]Agent, nodes)}
	for r := range s.n {
		a := &s.agents[s.node(r)]
		a.Host, a.PID, a.Node = fmt.Sprint("n", s.node(r)), 1, s.node(r)
		a.Ranks = append(a.Ranks, r)
	}
	return s
}

func (s *scale) node(rank int) int {
	if s.byNode {
		return rank % s.nodes
	}
	return rank / s.per
}

// run goes through the life of the job, and returns what the head keeps in the middle of it, in
// bytes a rank.
func (s *scale) run() float64 {
	before := heap()
	s.j = New(Config{Size: s.n, Built: true, Ckpt: ckpt.HeadConfig{SparseFrom: 16, PhaseMillis: 1e6, AskMillis: 1e6}})
	s.step(Event{Type: EvStart})
	s.step(Event{Type: EvBegun, Life: 1, Begun: Begun{Incarnation: 7, Agents: s.agents}})
	s.step(Event{Type: EvOrdered, Life: 1})
	s.everyRank(oob.Msg{Kind: oob.Spawn, A: oob.SpawnRuns, B: 100})
	s.everyRank(oob.Msg{Kind: oob.Hello, A: oob.VersionMin, B: oob.VersionMax, Data: []byte(`{"role":"rank","arch":"amd64"}`)})
	s.told("start")
	s.wireUp()
	kept := float64(heap()-before) / float64(s.n)
	s.checkpoint()
	s.told("checkpoint")
	kept = max(kept, float64(heap()-before)/float64(s.n))
	s.finish()
	s.told("end")
	return kept
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what has a finalizer goes with the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// step feeds the head, and counts what it sends.
func (s *scale) step(ev Event) {
	total, reached := 0, 0
	touched := []int(nil)
	for _, a := range s.j.Step(ev) {
		switch a.Type {
		case ActSend:
			size := 48 + len(a.Msg.Data)
			if s.burst[a.Agent] == 0 {
				reached++
				touched = append(touched, a.Agent)
			}
			s.burst[a.Agent] += size
			s.queue = max(s.queue, s.burst[a.Agent])
			total += size
			s.frames++
		case ActCkpt:
			s.answers = append(s.answers, a.Ckpt)
		case ActVerdict:
			if a.Verdict.Code != 0 {
				s.t.Fatal(a.Verdict.Text)
			}
		case ActEnd:
			s.ended = true
		}
	}
	for _, i := range touched {
		s.burst[i] = 0
	}
	s.out += int64(total)
	s.all = max(s.all, total)
	if reached == s.nodes {
		s.rounds++
	}
}

// told notes what was counted in a part of the life, and begins to count again.
func (s *scale) told(part string) {
	s.log += fmt.Sprintf("%-10s: %d rounds, %d frames and %.1f MB from the head, %.1f MB to it, at most %.3f MB at one time to an agent, %.1f MB to all\n",
		part, s.rounds, s.frames, float64(s.out)/1e6, float64(s.in)/1e6, float64(s.queue)/1e6, float64(s.all)/1e6)
	s.queue, s.all, s.rounds, s.out, s.in, s.frames = 0, 0, 0, 0, 0, 0
}

// says feeds a rank's frame.
func (s *scale) says(rank int, m oob.Msg) {
	m.From = int32(rank)
	if m.To == 0 {
		m.To = oob.Head
	}
	if m.Kind != oob.Spawn && m.Kind != oob.Exit {
		m.Incarnation = 7
	}
	s.in += int64(48 + len(m.Data))
	s.step(Event{Type: EvFrame, Life: 1, Agent: s.node(rank), Msg: m})
}

func (s *scale) everyRank(m oob.Msg) {
	for r := range s.n {
		s.says(r, m)
	}
}

func (s *scale) wireUp() {
	for r := range s.n {
		s.says(r, oob.Msg{Kind: oob.Address, Data: s.json(oob.AddressInfo{Arch: "amd64", Books: true, Local: []string{"shm"}, Asks: []string{"tcp"}, Modules: map[string][]byte{
			"shm": fmt.Appendf(nil, "%032d", r), "tcp": fmt.Appendf(nil, "10.%d.%d.%d:%d,24 bytes more of it     ", s.node(r)>>16, s.node(r)>>8&255, s.node(r)&255, 20_000+r%40_000)}})})
	}
	s.told("addresses")
	for i, a := range s.agents {
		data := s.json(oob.ReachInfo{Order: []string{"shm", "tcp"}, Opened: []string{"shm", "tcp"},
			Not: []oob.Unreached{{Transport: "shm", Why: "on different nodes", Ranks: s.away(i)}}})
		for _, r := range a.Ranks {
			s.says(r, oob.Msg{Kind: oob.Reach, Data: data})
		}
	}
	routes := s.j.Transports()
	if want := s.n * (s.per - 1) / 2; s.nodes > 1 && (routes == nil || routes.Uses[0].Pairs != want) {
		s.t.Fatalf("connected by %v; %d pairs share a node", routes, want)
	}
	s.told("reach")
	s.everyRank(oob.Msg{Kind: oob.Up})
	s.told("up")
	s.lookUp()
	s.told("lookups")
}

// lookUp makes ranks ask for the peers that they send to, each agent once for a node.
func (s *scale) lookUp() {
	asked := map[[2]int]bool{}
	for r, to := range s.partners() {
		for _, peer := range to {
			if k := [2]int{s.node(r), s.node(peer)}; k[0] != k[1] && !asked[k] {
				asked[k] = true
				s.says(r, oob.Msg{Kind: oob.Lookup, A: uint64(peer)})
			}
		}
	}
}

// away is the ranks that are not on a node.
func (s *scale) away(node int) (runs [][2]int) {
	next := 0
	for _, r := range s.agents[node].Ranks {
		if r > next {
			runs = append(runs, [2]int{next, r - 1})
		}
		next = r + 1
	}
	if next < s.n {
		runs = append(runs, [2]int{next, s.n - 1})
	}
	return runs
}

func (s *scale) json(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// checkpoint takes one of portable images. Each rank has sent to eight others: its neighbours, and
// some far away.
func (s *scale) checkpoint() {
	s.step(Event{Type: EvRequest, Request: ckpt.Request{ID: 1, Mode: oob.ModeSelf}})
	s.answer(ckpt.HactFolder, ckpt.HeadEvent{Type: ckpt.HvFolder, Seq: 1, Folder: "/shared/job/1"})
	attempt := func(m oob.Msg) oob.Msg { m.Attempt = 1; return m }
	s.everyRank(attempt(oob.Msg{Kind: oob.Points, A: 5}))
	s.everyRank(attempt(oob.Msg{Kind: oob.AtPoint, A: 6}))
	sends := s.partners()
	for i, a := range s.agents {
		sum := ckpt.NewDestSum(len(a.Ranks))
		for _, r := range a.Ranks {
			m, done, err := sum.Add(attempt(oob.Msg{Kind: oob.Dests, From: int32(r), Incarnation: 7, A: 1, Data: dests(sends[r])}))
			if err != nil {
				s.t.Fatal(err)
			}
			if done {
				m.From, m.To = oob.AgentAddr(i), oob.Head
				s.in += int64(48 + len(m.Data))
				s.step(Event{Type: EvFrame, Life: 1, Agent: i, Msg: m})
			}
		}
	}
	for r, to := range sends {
		for _, peer := range to {
			if s.node(peer) != s.node(r) { // within a node its agent passes it on
				s.says(r, attempt(oob.Msg{Kind: oob.Bookmark, To: int32(peer), A: 1000}))
			}
		}
	}
	s.everyRank(attempt(oob.Msg{Kind: oob.Ready}))
	s.everyRank(attempt(oob.Msg{Kind: oob.Captured, A: 1 << 20}))
	for r := range s.n {
		s.says(r, attempt(oob.Msg{Kind: oob.Written, A: 1 << 20, Data: fmt.Appendf(nil, `{"file":%q,"size":1048576,"sum":"%064x"}`, ckpt.ImageName(r), r)}))
	}
	s.answer(ckpt.HactCommit, ckpt.HeadEvent{Type: ckpt.HvCommitted})
	for _, a := range s.answers {
		if a.Type == ckpt.HactDone && a.Done.Err == "" && a.Done.Seq == 1 {
			return
		}
	}
	s.t.Fatal("the checkpoint was not taken")
}

// partners are, by rank, those that it has sent to.
func (s *scale) partners() [][]int {
	rng := rand.New(rand.NewPCG(1, 2))
	all := make([][]int, s.n)
	for r := range all {
		for _, d := range []int{1, s.n - 1, s.per, s.n - s.per} {
			all[r] = append(all[r], (r+d)%s.n)
		}
		for range 4 {
			all[r] = append(all[r], rng.IntN(s.n))
		}
	}
	return all
}

// dests is what a rank says of its destinations: package ckpt has the format.
func dests(to []int) []byte {
	p := make([]byte, 16*len(to))
	for i, r := range to {
		p[16*i], p[16*i+1], p[16*i+2], p[16*i+3], p[16*i+8] = byte(r), byte(r>>8), byte(r>>16), byte(r>>24), 1
	}
	return p
}

// answer answers an action of the checkpoint machine, which must have come.
func (s *scale) answer(to ckpt.HeadActionType, ev ckpt.HeadEvent) {
	for _, a := range s.answers {
		if a.Type == to {
			s.step(Event{Type: EvCkpt, Life: 1, Ckpt: ev})
			return
		}
	}
	s.t.Fatalf("no action of type %d", to)
}

func (s *scale) finish() {
	s.everyRank(oob.Msg{Kind: oob.FinalizeWant})
	s.everyRank(oob.Msg{Kind: oob.Exit, B: 100})
	for i := range s.agents {
		s.step(Event{Type: EvFrame, Life: 1, Agent: i, Msg: oob.Msg{Kind: oob.Exit, From: oob.AgentAddr(i), To: oob.Head}})
	}
	s.step(Event{Type: EvCleaned})
	for i := range s.agents {
		s.step(Event{Type: EvGone, Life: 1, Agent: i})
	}
	if !s.ended {
		s.t.Fatalf("the job has not ended: it is %s", s.j.State())
	}
}
