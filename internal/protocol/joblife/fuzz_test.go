package joblife

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// FuzzFrames feeds a running job whatever its ranks and agents may send. None of it
// may bring the head down, and a job that is ended then has its verdict.
func FuzzFrames(f *testing.F) {
	add := func(ms ...oob.Msg) {
		var b []byte
		for _, m := range ms {
			b, _ = oob.Append(b, &m)
		}
		f.Add(b)
	}
	hello := oob.Msg{Kind: oob.Hello, To: oob.Head, A: oob.VersionMin, B: oob.VersionMax, Data: []byte(`{"role":"rank"}`)}
	address := oob.Msg{Kind: oob.Address, To: oob.Head, Data: []byte(`{"modules":{"tcp":"YQ=="}}`)}
	reach := oob.Msg{Kind: oob.Reach, To: oob.Head, Data: []byte(`{"order":["tcp"],"opened":["tcp"],"not":[{"transport":"tcp","why":"so","ranks":[[1,1]]}]}`)}
	one := func(m oob.Msg) oob.Msg { m.From = 1; return m }
	add(hello, one(hello), address, one(address), reach, one(reach), oob.Msg{Kind: oob.Up, To: oob.Head})
	add(oob.Msg{Kind: oob.Spawn, A: oob.SpawnHeld, B: 7, Data: []byte("a note")}, oob.Msg{Kind: oob.Spawn, A: oob.SpawnWaits}, oob.Msg{Kind: oob.Spawn, A: oob.SpawnFree})
	add(oob.Msg{Kind: oob.Exit, A: 9}, oob.Msg{Kind: oob.Exit, From: 1, Data: []byte("no such file")}, oob.Msg{Kind: oob.Exit, From: oob.AgentAddr(0)})
	add(oob.Msg{Kind: oob.AbortJob, A: 3, B: 2}, oob.Msg{Kind: oob.Failure, From: 1, B: 1}, oob.Msg{Kind: oob.Bookmark, To: 1, A: 5})
	add(oob.Msg{Kind: oob.Up}, oob.Msg{Kind: oob.Up, From: 1}, oob.Msg{Kind: oob.FinalizeWant, Incarnation: incarnation(1)}, oob.Msg{Kind: oob.Dests, From: oob.AgentAddr(0), Incarnation: incarnation(1), Attempt: 1})
	add(oob.Msg{Kind: oob.Suspect, A: 1, B: 15_000}, oob.Msg{Kind: oob.Suspect, A: 1}, oob.Msg{Kind: oob.Suspect, From: 1, A: 1 << 63, B: 1 << 63})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, restore := range []int64{0, 1000} {
			j := New(Config{Size: 2, Restarts: 1, Built: true, Ckpt: ckpt.HeadConfig{SparseFrom: 2}})
			j.Step(Event{Type: EvStart})
			j.Step(Event{Type: EvBegun, Life: 1, Begun: Begun{Incarnation: incarnation(1), Agents: testAgents(2, 1), Restore: restore}})
			j.Step(Event{Type: EvOrdered, Life: 1})
			j.Step(Event{Type: EvRequest, Request: ckpt.Request{ID: 1, Mode: oob.ModeNative}})
			for rest := b; len(rest) > 0; {
				m, left, err := oob.Decode(rest)
				if err != nil {
					break
				}
				rest = left
				j.Step(Event{Type: EvFrame, Life: 1, Msg: m})
			}
			for _, ev := range []Event{
				{Type: EvFinish, Verdict: &Verdict{Code: 9, Rank: -1}}, {Type: EvLinkEnded, Life: 1}, {Type: EvGone, Life: 1}, {Type: EvChosen},
			} {
				j.Step(ev)
			}
			if j.verdict == nil {
				t.Fatalf("no verdict: %s", j.State())
			}
		}
	})
}
