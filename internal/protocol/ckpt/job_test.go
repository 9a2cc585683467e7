package ckpt

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// jobScript is a whole job: a head, all ranks, and drivers that do at once as
// they are told. Its network delivers in the order of sending, and prints each
// message; what a rank sends while "away" waits until it is "back". It is the
// agents, too: native images are made where the order to capture would arrive.
//
//	request ID self|native|auto [stop]
//	                                 somebody asks for a checkpoint
//	go                               deliver until nothing moves
//	sent A B BYTES                   rank A has sent rank B so many bytes, which are in flight
//	arrive                           all that is in flight arrives
//	points N...                      the Points that the ranks have entered
//	away R TEXT, back R              the program of rank R does not come to its next Point or out of the library
//	unable R TEXT                    rank R cannot be imaged at a Point
//	timeout, died R, finalize R, cannot-write R, written
type jobScript struct {
	np      int
	head    *Head
	ranks   []*jobRank
	net     []oob.Msg
	timer   uint64
	out     []string
	written bool // images become durable at once
	seq     int
}

type jobRank struct {
	m          *Rank
	sent, recv []uint64
	inFlight   []uint64
	points     uint64
	away       string
	owed       []RankEvent // while away
	draining   bool
	image      *RankEvent // being written
	copy       *oob.Msg   // native, being written by the agent
	unable     string
	broken     bool
}

func newJobScript(np, sparseFrom int) *jobScript {
	j := &jobScript{np: np, written: true,
		head: NewHead(HeadConfig{Size: np, Incarnation: testIncarnation, SparseFrom: sparseFrom})}
	for i := range np {
		j.ranks = append(j.ranks, &jobRank{m: NewRank(i, np, testIncarnation, Sparse(np, sparseFrom)),
			sent: make([]uint64, np), recv: make([]uint64, np), inFlight: make([]uint64, np)})
	}
	j.headStep(HeadEvent{Type: HvAllUp})
	return j
}

func (j *jobScript) print(format string, args ...any) {
	j.out = append(j.out, fmt.Sprintf(format, args...))
}

func (j *jobScript) Do(w []string) ([]string, error) {
	j.out = nil
	n := numbers(w[1:])
	var r *jobRank
	if len(n) > 0 && int(n[0]) < j.np {
		r = j.ranks[n[0]]
	}
	switch w[0] {
	case "request":
		j.headStep(HeadEvent{Type: HvRequest, Request: parseRequest(w[1:])})
	case "go":
		j.run()
	case "sent":
		r.sent[n[1]] += n[2]
		j.ranks[n[1]].inFlight[n[0]] += n[2]
	case "arrive":
		j.arrive()
	case "points":
		for i, p := range n {
			j.ranks[i].points = p
		}
	case "away":
		r.away = strings.Join(w[2:], " ")
	case "back":
		r.away = ""
		owed := r.owed
		r.owed = nil
		for _, ev := range owed {
			j.rankStep(int(n[0]), ev)
		}
	case "timeout":
		j.headStep(HeadEvent{Type: HvTimeout, Timer: j.timer})
	case "died":
		j.headStep(HeadEvent{Type: HvDied, Rank: int(n[0]), Err: strings.Join(w[2:], " ")})
	case "finalize":
		j.send(oob.Msg{Kind: oob.FinalizeWant, From: int32(n[0]), To: oob.Head, Incarnation: testIncarnation})
	case "cannot-write":
		r.broken = true
	case "unable":
		r.unable = strings.Join(w[2:], " ")
	case "written":
		j.written = w[1] == "at-once"
		for i := range j.ranks {
			j.write(i)
		}
	case "states":
		for i, r := range j.ranks {
			j.print("%d %s", i, r.m.State().String())
		}
	default:
		return nil, fmt.Errorf("no command %q", w[0])
	}
	return j.out, nil
}

func (j *jobScript) send(m oob.Msg) { j.net = append(j.net, m) }

func (j *jobScript) run() {
	for len(j.net) > 0 {
		m := j.net[0]
		j.net = j.net[1:]
		j.print("%s -> %s: %s", party(m.From), party(m.To), say(m))
		switch {
		case m.To == oob.Head:
			j.headStep(HeadEvent{Type: HvMsg, Msg: m})
		case !j.agent(j.ranks[m.To], &m):
			j.rankStep(int(m.To), RankEvent{Type: EvMsg, Msg: m})
			if m.Kind == oob.Open && j.written {
				j.write(int(m.To))
			}
		}
	}
}

// agent is what a rank's agent does with a message of the head: it keeps the
// order to make a native image.
func (j *jobScript) agent(r *jobRank, m *oob.Msg) (kept bool) {
	switch m.Kind {
	case oob.Revert:
		r.copy = nil
	case oob.Capture:
		var cfg oob.CaptureConfig
		if err := json.Unmarshal(m.Data, &cfg); err != nil || cfg.Mode != oob.ModeNative {
			return false
		}
		if r.m.State() != Ready {
			j.print("a rank is imaged in state %v", r.m.State())
		}
		answer := oob.Msg{Kind: oob.Captured, From: m.To, To: oob.Head, Incarnation: m.Incarnation, Attempt: m.Attempt, A: 1000}
		j.send(answer)
		info, _ := json.Marshal(oob.ImageInfo{File: ImageName(int(m.To)), Base: cfg.Base, Pause: 3e6})
		answer.Kind, answer.Data = oob.Written, info
		if r.broken {
			answer.Kind, answer.A, answer.Data = oob.Failed, 0, []byte("no space left on device")
		}
		r.copy = &answer
		return true
	}
	return false
}

func (j *jobScript) headStep(ev HeadEvent) {
	for _, a := range j.head.Step(ev) {
		switch a.Type {
		case HactSend:
			j.send(a.Msg)
		case HactTimer:
			j.timer = a.Timer
		case HactFolder:
			j.seq++
			j.headStep(HeadEvent{Type: HvFolder, Seq: j.seq, Folder: strconv.Itoa(j.seq)})
		case HactCommit:
			j.print("head: %s", sayHead(a))
			j.headStep(HeadEvent{Type: HvCommitted})
		case HactDiscard, HactDone, HactFinalized, HactMoved:
			j.print("head: %s", sayHead(a))
		}
	}
}

func (j *jobScript) rankStep(i int, ev RankEvent) {
	r := j.ranks[i]
	for _, a := range r.m.Step(ev) {
		answer := RankEvent{Attempt: a.Attempt}
		switch a.Type {
		case ActSend:
			j.send(a.Msg)
			continue
		case ActArm:
			answer.Type, answer.N = EvArmed, r.points
			if r.unable != "" {
				answer.Type, answer.N, answer.Err = EvUnable, nothingToPrepare, r.unable
			}
			j.rankStep(i, answer)
			continue
		case ActRunTo:
			answer.Type, answer.N = EvAtPoint, a.N
		case ActCloseGate:
			answer.Type = EvClosed
		case ActFlush:
			answer.Type, answer.Sent = EvFlushed, r.sent
		case ActWhere:
			answer.Type, answer.Info = EvWhere, []byte(r.away)
			j.rankStep(i, answer)
			continue
		case ActDrain:
			r.draining = true
			answer.Type, answer.Recv = EvProgress, r.recv
		case ActCapture:
			answer.Type, answer.N = EvCaptured, 1000
			r.image = &RankEvent{Type: EvWritten, Attempt: a.Attempt, Size: 1000,
				Info: []byte(fmt.Sprintf(`{"file":%q}`, ImageName(i)))}
			if r.broken {
				r.image = &RankEvent{Type: EvFailed, Attempt: a.Attempt, Err: "no space left on device"}
			}
		case ActReady:
			r.draining = false
			continue
		default:
			j.print("%d: %s", i, sayAction(a))
			if a.Type == ActOpenGate {
				r.draining, r.owed = false, nil
				if r.image != nil && j.written {
					j.write(i)
				}
			}
			if a.Type == ActDiscard {
				r.image = nil
			}
			continue
		}
		if r.away != "" {
			r.owed = append(r.owed, answer)
			continue
		}
		j.rankStep(i, answer)
	}
}

func (j *jobScript) write(i int) {
	r := j.ranks[i]
	if r.copy != nil {
		j.send(*r.copy)
		r.copy = nil
	}
	if r.image != nil {
		ev := *r.image
		r.image = nil
		j.rankStep(i, ev)
	}
}

func (j *jobScript) arrive() {
	for i, r := range j.ranks {
		moved := false
		for from, n := range r.inFlight {
			r.recv[from] += n
			r.inFlight[from] = 0
			moved = moved || n > 0
		}
		if _, live := r.m.Attempt(); moved && live && r.draining {
			attempt, _ := r.m.Attempt()
			j.rankStep(i, RankEvent{Type: EvProgress, Attempt: attempt, Recv: r.recv})
		}
	}
}
