package ckpt

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/testing/transcript"
)

// TestTranscripts plays testdata/*.txt. The first line names the machine:
//
//	rank 0 of 3 [sparse]     one rank; the transcript is its head, its peers and its driver
//	head of 3 [full-every=5] [sparse]
//	                         the head; the transcript is its ranks and its driver
//	job of 3 [sparse]        a head and all ranks, with drivers that do as they are told
//
// Package transcript has the rest of the format.
func TestTranscripts(t *testing.T) { transcript.Play(t, "testdata/*.txt", newMachine) }

const testIncarnation = 7

func newMachine(line string) (transcript.Machine, error) {
	w := strings.Fields(line)
	n := make([]int, 0, 2)
	full := 0
	for _, s := range w {
		if v, ok := strings.CutPrefix(s, "full-every="); ok {
			full, _ = strconv.Atoi(v)
		}
		if i, err := strconv.Atoi(s); err == nil {
			n = append(n, i)
		}
	}
	sparse := w[len(w)-1] == "sparse"
	from := 0
	if sparse {
		from = 1
	}
	switch {
	case w[0] == "rank" && len(n) == 2:
		return &rankScript{m: NewRank(n[0], n[1], testIncarnation, sparse), rank: n[0]}, nil
	case w[0] == "head" && len(n) == 1:
		return &headScript{NewHead(HeadConfig{Size: n[0], Incarnation: testIncarnation, SparseFrom: from, FullEvery: full})}, nil
	case w[0] == "job" && len(n) == 1:
		return newJobScript(n[0], from), nil
	}
	return nil, fmt.Errorf("cannot make a %q", strings.Join(w, " "))
}

// options takes attempt=, incarnation= and to= off the words.
func options(w []string, m *oob.Msg) []string {
	m.Incarnation, m.Attempt = testIncarnation, 1
	rest := w[:0:0]
	for _, s := range w {
		key, value, ok := strings.Cut(s, "=")
		n, err := strconv.ParseUint(value, 10, 64)
		switch {
		case ok && err == nil && key == "attempt":
			m.Attempt = uint32(n)
		case ok && err == nil && key == "incarnation":
			m.Incarnation = n
		case ok && err == nil && key == "to":
			m.To = int32(n)
		default:
			rest = append(rest, s)
		}
	}
	return rest
}

func numbers(w []string) []uint64 {
	var n []uint64
	for _, s := range w {
		i, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			break
		}
		n = append(n, i)
	}
	return n
}

func first(n []uint64) uint64 {
	if len(n) == 0 {
		return 0
	}
	return n[0]
}

// message reads "from <head|agent0|rank>: kind [number] [text]".
func message(w []string, m *oob.Msg) error {
	who := strings.TrimSuffix(w[0], ":")
	if r, err := strconv.Atoi(who); err == nil {
		m.From = int32(r)
	} else if a, isAgent := strings.CutPrefix(who, "agent"); isAgent {
		i, _ := strconv.Atoi(a)
		m.From = oob.AgentAddr(i)
	} else {
		m.From = oob.Head
	}
	kind, ok := lookup(kindNames, w[1])
	if !ok {
		return fmt.Errorf("no message %q", w[1])
	}
	m.Kind = kind
	n := numbers(w[2:])
	m.A = first(n)
	rest := w[2+min(len(n), 1):]
	switch m.Kind {
	case oob.Prepare, oob.Close: // "close native"
		if len(rest) > 0 {
			m.A, _ = lookup(modeNames, rest[0])
		}
	case oob.Failed: // "failed [to-stop [nothing-registered]|ahead] why"
		for ; len(rest) > 0; rest = rest[1:] {
			if rest[0] == "to-stop" {
				m.A = failedPreparing
			} else if rest[0] == "nothing-registered" {
				m.B = nothingToPrepare
			} else if rest[0] == "ahead" {
				m.A = oob.FailedAhead
			} else {
				break
			}
		}
		m.Data = []byte(strings.Join(rest, " "))
	case oob.Dests: // "dests RANKS to..."
		for _, to := range n[1:] {
			m.Data = append(m.Data, byte(to), 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
		}
	case oob.Written: // "written BYTES FILE [base=N] [pause=NS] [note=TEXT]"
		info := oob.ImageInfo{File: rest[0]}
		for _, s := range rest[1:] {
			key, value, _ := strings.Cut(s, "=")
			i, _ := strconv.Atoi(value)
			switch key {
			case "base":
				info.Base = i
			case "pause":
				info.Pause = int64(i)
			case "note":
				info.Note = value
			}
		}
		m.Data, _ = json.Marshal(info)
	default:
		m.Data = []byte(strings.Join(rest, " "))
	}
	return nil
}

type rankScript struct {
	m    *Rank
	rank int
}

func (s *rankScript) Do(w []string) ([]string, error) {
	var ev RankEvent
	if w[0] == "state" {
		return []string{s.m.State().String()}, nil
	}
	if w[0] == "from" {
		ev.Type, ev.Msg.To = EvMsg, int32(s.rank)
		if err := message(options(w[1:], &ev.Msg), &ev.Msg); err != nil {
			return nil, err
		}
	} else {
		t, ok := lookup(eventNames, w[0])
		if !ok {
			return nil, fmt.Errorf("no event %q", w[0])
		}
		rest := options(w[1:], &ev.Msg)
		ev.Type, ev.Attempt = t, ev.Msg.Attempt
		ev.Msg = oob.Msg{}
		n := numbers(rest)
		ev.N, ev.Size, ev.Sent, ev.Recv = first(n), first(n), n, n
		ev.Err = strings.Join(rest, " ")
		ev.Info = []byte(ev.Err)
		if text, ok := strings.CutPrefix(ev.Err, "nothing-registered "); ok {
			ev.Err, ev.N = text, nothingToPrepare
		}
	}
	var out []string
	for _, a := range s.m.Step(ev) {
		out = append(out, sayAction(a))
	}
	return out, nil
}

type headScript struct{ m *Head }

func (s *headScript) Do(w []string) ([]string, error) {
	var ev HeadEvent
	if w[0] == "from" {
		ev.Type, ev.Msg.To = HvMsg, oob.Head
		if err := message(options(w[1:], &ev.Msg), &ev.Msg); err != nil {
			return nil, err
		}
		return s.step(ev), nil
	}
	if w[0] == "successor" { // of the incarnation behind
		s.m = s.m.Successor(testIncarnation + 1)
		return nil, nil
	}
	t, ok := lookup(headEventNames, w[0])
	if !ok {
		return nil, fmt.Errorf("no event %q", w[0])
	}
	ev.Type = t
	n := numbers(w[1:])
	ev.Err = strings.Join(w[1+len(n):], " ")
	switch t {
	case HvRequest:
		ev.Request = parseRequest(w[1:])
	case HvHold, HvRelease: // "hold ID TEXT", "hold ID suspended TEXT", "release [suspended]"
		ev.Request.ID = first(n)
		if text, ok := strings.CutPrefix(ev.Err, "suspended"); ok {
			ev.Holder, ev.Err = BySuspended, strings.TrimSpace(text)
		}
	case HvMoveFailed:
		ev.Err = strings.Join(w[1:], " ")
	case HvDied:
		ev.Rank = int(first(n))
	case HvTimeout:
		ev.Timer = first(n)
	case HvAhead:
		ev.Seq = int(first(n))
	case HvFolder:
		ev.Seq, ev.Folder = int(first(n)), ev.Err
	}
	return s.step(ev), nil
}

func (s *headScript) step(ev HeadEvent) []string {
	var out []string
	for _, a := range s.m.Step(ev) {
		out = append(out, sayHead(a))
	}
	return out
}

// parseRequest reads "ID self|native|auto [stop] [patient] [timeout=MILLIS] [codec=NAME] [move=RANK,RANK]".
func parseRequest(w []string) Request {
	r := Request{ID: first(numbers(w))}
	for _, s := range w {
		key, value, _ := strings.Cut(s, "=")
		switch key {
		case "self", "native", "auto":
			r.Mode, _ = lookup(modeNames, key)
		case "stop":
			r.Stop = true
		case "move":
			for _, rank := range strings.Split(value, ",") {
				n, _ := strconv.Atoi(rank)
				r.Move = append(r.Move, n)
			}
		case "patient":
			r.Patient = true
		case "timeout":
			r.Timeout, _ = strconv.ParseInt(value, 10, 64)
		case "codec":
			r.Codec = value
		case "pointless":
			r.Pointless = value
		}
	}
	return r
}
