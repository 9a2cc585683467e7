package joblife

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/testing/transcript"
)

// TestTranscripts plays testdata/*.txt. The first line says which job it is:
//
//	job of 4, agents 2, restarts 1 [, unbuilt]
//
// Package transcript has the rest of the format. Frames of ranks come through their
// own agent, of the present life, unless agent=N or life=N says otherwise; "all"
// are all ranks.
//
//	start, program [error TEXT], begun [whole] [error TEXT], ordered [error TEXT]
//	0 spawned|waits|held|free [TEXT], 0 hello [old|big-endian], 0 address JSON, 0 reach JSON, 0 up
//	0 ready, 0 captured, 0 written, 0 finalize, 0 abort CODE [secondary|panic] TEXT, 0 failing [secondary] TEXT
//	0 suspects RANK SECONDS
//	0 exit STATUS, 0 killed SIGNAL, 0 unstarted TEXT
//	agent N done|ended|gone, tick [slow N], timeout ID, fail TEXT
//	hold ID TEXT, release ID, suspend ID, resume ID, agent N stopped
//	finish TEXT, interrupt, stop SIGNAL, signal SIGNAL, request ID [stop], folder SEQ, committed, storing N, chosen N|start|refused, cleaned
//	move ID RANK... [limit=MILLISECONDS], joined RANK... [error TEXT] (all on one new agent), folder SEQ; new=N: its frame is of the incarnation of the Nth switch
//	state
func TestTranscripts(t *testing.T) { transcript.Play(t, "testdata/*.txt", newScript) }

// script is a job whose driver is the transcript.
type script struct {
	j          *Job
	np, agents int
	moves      int
}

func newScript(line string) (transcript.Machine, error) {
	s := &script{}
	var restarts int
	if _, err := fmt.Sscanf(line, "job of %d, agents %d, restarts %d", &s.np, &s.agents, &restarts); err != nil {
		return nil, err
	}
	s.j = New(Config{Size: s.np, Restarts: restarts, Built: !strings.HasSuffix(line, "unbuilt"), Heartbeat: 5000, Stopped: 75})
	return s, nil
}

// incarnation is that of a life, in transcripts.
func incarnation(life int) uint64 { return uint64(100 + life) }

// switched is that of the Nth switch of a life.
func switched(life, n int) uint64 { return incarnation(life) + uint64(1000*n) }

func testAgents(np, n int) (all []Agent) {
	for i := range n {
		a := Agent{Host: fmt.Sprintf("n%d", i), PID: 1000 + i, Own: i == 0}
		for rank := i * np / n; rank < (i+1)*np/n; rank++ {
			a.Ranks = append(a.Ranks, rank)
		}
		all = append(all, a)
	}
	return all
}

func agentOf(rank, np, n int) int {
	for i, a := range testAgents(np, n) {
		for _, r := range a.Ranks {
			if r == rank {
				return i
			}
		}
	}
	return 0
}

func (s *script) Do(w []string) ([]string, error) {
	if w[0] == "state" {
		var ranks []string
		for rank := range s.np {
			ranks = append(ranks, s.j.Rank(rank).Phase.String())
		}
		return []string{fmt.Sprintf("%s, life %d: %s", s.j.State(), s.j.Life(), strings.Join(ranks, ", "))}, nil
	}
	var out []string
	step := func(ev Event) {
		for _, a := range s.j.Step(ev) {
			out = append(out, say(&a))
		}
	}
	if w[0] == "all" {
		for rank := range s.np {
			ev, err := s.rank(rank, w[1:])
			if err != nil {
				return nil, err
			}
			step(ev)
		}
		return out, nil
	}
	ev, err := s.event(w)
	if err == nil {
		step(ev)
	}
	return out, err
}

func (s *script) event(w []string) (ev Event, err error) {
	ev.Life = max(1, s.j.Life())
	rest := strings.Join(w[1:], " ")
	why := func() {
		if _, text, ok := strings.Cut(rest, "error "); ok {
			ev.Verdict = &Verdict{Code: Failed, Rank: -1, Text: text}
		}
	}
	switch w[0] {
	case "start":
		ev.Type = EvStart
	case "program":
		ev.Type = EvProgram
		why()
	case "begun":
		ev.Type = EvBegun
		ev.Begun = Begun{Incarnation: incarnation(ev.Life), Agents: testAgents(s.np, s.agents)}
		if strings.HasPrefix(rest, "whole") {
			ev.Begun.Restore = 60_000
		}
		why()
	case "ordered":
		ev.Type = EvOrdered
		why()
	case "agent":
		ev.Type = EvLinkEnded
		if w[2] == "gone" {
			ev.Type = EvGone
		}
		what := w[2]
		w = options(w, &ev)
		ev.Agent, err = strconv.Atoi(w[1])
		if what == "stopped" { // its ranks are
			ev.Type, ev.Msg = EvFrame, oob.Msg{Kind: oob.Ping, From: oob.AgentAddr(ev.Agent), To: oob.Head, A: pingStopped}
		}
		if what == "done" { // its last frame
			ev.Type, ev.Msg = EvFrame, oob.Msg{Kind: oob.Exit, From: oob.AgentAddr(ev.Agent), To: oob.Head}
		}
	case "tick":
		ev.Type = EvTick
		if len(w) > 2 {
			ev.Slow, err = strconv.ParseFloat(w[2], 64)
		}
	case "timeout":
		ev.Type = EvTimeout
		ev.Timer, err = strconv.ParseUint(w[1], 10, 64)
	case "fail":
		ev.Type, ev.Polite, ev.Verdict = EvFail, true, &Verdict{Code: Failed, Rank: -1, Text: rest}
	case "finish":
		ev.Type, ev.Polite, ev.Verdict = EvFinish, true, &Verdict{Code: 9, Rank: -1, Text: rest}
	case "interrupt":
		ev.Type = EvInterrupt
	case "stop", "signal":
		n, _ := strconv.Atoi(w[1])
		ev.Type, ev.Signal = EvSignal, syscall.Signal(n)
		if w[0] == "stop" {
			ev.Type, ev.Verdict = EvStop, &Verdict{Code: SignalBase + n, Rank: -1, Text: "ended by " + SignalName(ev.Signal)}
		}
	case "request":
		ev.Type = EvRequest
		ev.Request.ID, err = strconv.ParseUint(w[1], 10, 64)
		ev.Request.Mode, ev.Request.Stop = oob.ModeNative, strings.HasSuffix(rest, "stop")
	case "hold", "release", "suspend", "resume":
		ev.Type = map[string]EventType{"hold": EvHold, "release": EvRelease, "suspend": EvSuspend, "resume": EvResume}[w[0]]
		ev.ID, err = strconv.ParseUint(w[1], 10, 64)
		ev.Text = strings.Join(w[2:], " ")
	case "folder":
		ev.Type, ev.Ckpt.Type, ev.Ckpt.Folder = EvCkpt, ckpt.HvFolder, w[1]
		ev.Ckpt.Seq, err = strconv.Atoi(w[1])
	case "ahead":
		ev.Type, ev.Ckpt.Type = EvCkpt, ckpt.HvAhead
		ev.Ckpt.Seq, err = strconv.Atoi(w[1])
	case "committed":
		ev.Type, ev.Ckpt.Type = EvCkpt, ckpt.HvCommitted
	case "storing":
		ev.Type = EvStoring
		ev.Works, err = strconv.Atoi(w[1])
	case "chosen":
		ev.Type, ev.Refused = EvChosen, w[1] == "refused"
		ev.Snapshot, _ = strconv.Atoi(w[1])
	case "move":
		ev.Type = EvMove
		ev.ID, err = strconv.ParseUint(w[1], 10, 64)
		for _, s := range w[2:] {
			if limit, ok := strings.CutPrefix(s, "limit="); ok {
				ev.Request.Timeout, _ = strconv.ParseInt(limit, 10, 64)
				continue
			}
			rank, _ := strconv.Atoi(s)
			ev.Ranks = append(ev.Ranks, rank)
		}
	case "joined":
		s.moves++
		ev.Type = EvJoined
		at := Agent{Host: fmt.Sprintf("t%d", s.moves), PID: 3000 + s.moves}
		for _, w := range w[1:] {
			if rank, err := strconv.Atoi(w); err == nil {
				at.Ranks = append(at.Ranks, rank)
			}
		}
		ev.Begun = Begun{Incarnation: switched(ev.Life, 2*s.moves-1), Back: switched(ev.Life, 2*s.moves)}
		if why(); ev.Verdict == nil {
			ev.Begun.Agents = []Agent{at}
		}
	case "cleaned":
		ev.Type = EvCleaned
	default:
		rank, err := strconv.Atoi(w[0])
		if err != nil {
			return ev, fmt.Errorf("no event %q", w[0])
		}
		return s.rank(rank, w[1:])
	}
	return ev, err
}

// options takes life= and agent= off the words.
func options(w []string, ev *Event) []string {
	var rest []string
	for _, s := range w {
		key, value, _ := strings.Cut(s, "=")
		n, err := strconv.Atoi(value)
		switch {
		case err == nil && key == "life":
			ev.Life, ev.Msg.Incarnation = n, incarnation(n)
		case err == nil && key == "agent":
			ev.Agent = n
		case err == nil && key == "new":
			ev.Msg.Incarnation = switched(ev.Life, n)
		case err == nil && key == "attempt":
			ev.Msg.Attempt = uint32(n)
		default:
			rest = append(rest, s)
		}
	}
	return rest
}

// rank is a frame of a rank, or of its agent about it.
func (s *script) rank(rank int, w []string) (Event, error) {
	ev := Event{Type: EvFrame, Life: s.j.Life(), Agent: agentOf(rank, s.np, s.agents)}
	m := &ev.Msg
	m.From, m.To = int32(rank), oob.Head
	what := w[0]
	rest := options(w[1:], &ev)
	number := func() uint64 {
		if len(rest) == 0 {
			return 0
		}
		n, err := strconv.Atoi(rest[0])
		if err == nil {
			rest = rest[1:]
		}
		return uint64(n)
	}
	if k, ok := map[string]uint64{"spawned": oob.SpawnRuns, "held": oob.SpawnHeld, "free": oob.SpawnFree, "waits": oob.SpawnWaits}[what]; ok {
		m.Kind, m.A, m.B = oob.Spawn, k, uint64(2000+rank)
	} else if k, ok := map[string]oob.Kind{"hello": oob.Hello, "address": oob.Address, "reach": oob.Reach, "up": oob.Up, "finalize": oob.FinalizeWant,
		"abort": oob.AbortJob, "failing": oob.Failure, "exit": oob.Exit, "killed": oob.Exit, "unstarted": oob.Exit, "ping": oob.Ping, "ready": oob.Ready, "captured": oob.Captured, "written": oob.Written, "suspects": oob.Suspect}[what]; ok {
		m.Kind = k
	} else {
		return ev, fmt.Errorf("no frame %q", what)
	}
	switch what {
	case "hello":
		m.A, m.B = oob.VersionMin, oob.VersionMax
		if len(rest) > 0 && rest[0] == "old" {
			m.B, rest = oob.VersionLook, rest[1:]
		}
		info := oob.HelloInfo{Role: "rank", Arch: "amd64"}
		if len(rest) > 0 {
			info.Arch, info.BigEndian = "s390x", true
		}
		m.Data = fmt.Appendf(nil, `{"role":"rank","arch":%q,"big_endian":%v}`, info.Arch, info.BigEndian)
		return ev, nil
	case "suspects": // a rank, seconds
		m.A, m.B = number(), 1000*number()
		return ev, nil
	case "abort":
		m.A = number()
	case "exit":
		m.A = number() << 8
	case "killed":
		m.A = number()
	case "written":
		m.Incarnation, m.Attempt, m.Data = cmp.Or(m.Incarnation, incarnation(ev.Life)), cmp.Or(m.Attempt, 1), []byte("{}")
		return ev, nil
	case "ready", "captured", "finalize":
		m.Incarnation, m.Attempt = cmp.Or(m.Incarnation, incarnation(ev.Life)), cmp.Or(m.Attempt, 1)
	}
	if len(rest) > 0 && rest[0] == "stands" {
		m.B, rest = oob.FailureStands, rest[1:]
	} else if len(rest) > 0 && rest[0] == "secondary" {
		m.B, rest = 1, rest[1:]
	} else if len(rest) > 0 && rest[0] == "panic" {
		m.B, rest = oob.AbortPanic, rest[1:]
	}
	m.Data = []byte(strings.Join(rest, " "))
	return ev, nil
}

var kindNames = map[oob.Kind]string{
	oob.Start: "let go", oob.Peers: "peers", oob.Routes: "routes", oob.Running: "running", oob.FinalizeGo: "finalize-go",
	oob.Ping: "ping", oob.Signal: "signal", oob.KillAll: "kill", oob.Close: "close", oob.Revert: "revert", oob.Capture: "capture", oob.Open: "open", oob.Commit: "commit", oob.Health: "health",
}

// say is an action in words.
func say(a *Action) string {
	switch a.Type {
	case ActBegin:
		if a.Snapshot > 0 {
			return fmt.Sprintf("begin life %d from snapshot %d", a.Life, a.Snapshot)
		}
		return fmt.Sprintf("begin life %d", a.Life)
	case ActOrder:
		return fmt.Sprintf("order the ranks of life %d", a.Life)
	case ActSend:
		kind, to := kindNames[a.Msg.Kind], ""
		switch {
		case kind == "":
			kind = fmt.Sprintf("kind %d", a.Msg.Kind)
		case a.Msg.Kind == oob.KillAll && a.Msg.B == oob.Goodbye:
			kind = "goodbye"
		case a.Msg.Kind == oob.Health:
			kind = [...]string{"healthy", "suspect", "failed"}[a.Msg.A]
		case a.Msg.Kind == oob.Signal:
			kind = SignalName(syscall.Signal(a.Msg.A))
		}
		if a.Msg.To >= 0 {
			to = fmt.Sprintf(" for rank %d", a.Msg.To)
		}
		if a.Msg.Kind != oob.Capture { // package ckpt's transcripts tell
			to += " " + string(a.Msg.Data)
		}
		return strings.TrimSpace(fmt.Sprintf("agent %d.%d <- %s%s", a.Life, a.Agent, kind, to))
	case ActKill:
		return fmt.Sprintf("end agent %d.%d", a.Life, a.Agent)
	case ActTimer:
		return fmt.Sprintf("timer %d: %v", a.Timer, millis(a.Millis))
	case ActStopTimer:
		return fmt.Sprintf("stop timer %d", a.Timer)
	case ActCkpt:
		c := &a.Ckpt
		switch c.Type {
		case ckpt.HactDone:
			return fmt.Sprintf("request %d: %q", c.Done.ID, c.Done.Err)
		case ckpt.HactProgress:
			return fmt.Sprintf("checkpoint: %s, %d of %d", c.Info.Phase, c.Info.Ranks, c.Info.Size)
		case ckpt.HactFolder:
			return "checkpoint: folder"
		case ckpt.HactCommit:
			return fmt.Sprintf("checkpoint: commit %d", c.Seq)
		case ckpt.HactAhead:
			return fmt.Sprintf("checkpoint: bring the images of %d", c.Seq)
		case ckpt.HactDiscard:
			return fmt.Sprintf("checkpoint: discard %d", c.Seq)
		}
		return fmt.Sprintf("checkpoint: action %d", c.Type)
	case ActJoin:
		return fmt.Sprintf("join: begin agents from %d.%d on, for the ranks %v", a.Life, a.Agent, a.Ranks)
	case ActRestore:
		return fmt.Sprintf("restore from the images of %d", a.Ckpt.Seq)
	case ActSwitch:
		if a.Back {
			return fmt.Sprintf("switch back, incarnation %d", a.Incarnation)
		}
		return fmt.Sprintf("switch to incarnation %d", a.Incarnation)
	case ActMoved:
		return fmt.Sprintf("move %d: %q", a.ID, a.Text)
	case ActConnected:
		return "connected"
	case ActUp:
		return "all ranks are up"
	case ActHeld:
		if a.Text != "" {
			return fmt.Sprintf("answer %d: %q", a.ID, a.Text)
		}
		return fmt.Sprintf("answer %d: done", a.ID)
	case ActSuspended:
		return "no time counts"
	case ActResumed:
		return "time counts"
	case ActSay:
		if a.Detail {
			return fmt.Sprintf("detail %q", a.Text)
		}
		return fmt.Sprintf("say %q", a.Text)
	case ActChoose:
		if len(a.Left) > 0 {
			return fmt.Sprintf("choose a snapshot, none of %v if there is another, because %q", a.Left, a.Verdict.Text)
		}
		return fmt.Sprintf("choose a snapshot, because %q", a.Verdict.Text)
	case ActVerdict:
		return fmt.Sprintf("verdict: status %d, rank %d, %q", a.Verdict.Code, a.Verdict.Rank, a.Verdict.Text)
	case ActEnd:
		return "end"
	case ActLeaveOut:
		return fmt.Sprintf("leave out the node of agent %d.%d: %s", a.Life, a.Agent, a.Text)
	}
	return fmt.Sprintf("action %d", a.Type)
}
