package phase

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/internal/testing/transcript"
)

// TestTranscripts plays testdata/*.txt. The first line is "offload process". An event is its name, then its
// fields: attempt=1 head=5 where=dir bytes=8 end, and last err=WORDS.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, "testdata/*.txt", func(line string) (transcript.Machine, error) {
		if line != "offload process" {
			return nil, fmt.Errorf("cannot make a %q", line)
		}
		return script{new(Machine)}, nil
	})
}

type script struct{ m *Machine }

func (s script) Do(words []string) ([]string, error) {
	e, err := parse(words)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, a := range s.m.Step(e) {
		lines = append(lines, describe(a))
	}
	return lines, nil
}

func parse(words []string) (e Event, err error) {
	t := slices.Index(eventNames[:], words[0])
	if t < 1 {
		return e, fmt.Errorf("no event %q", words[0])
	}
	e = Event{Type: EventType(t), Attempt: 1}
	for i, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		n, _ := strconv.ParseUint(value, 10, 64)
		switch key {
		case "attempt":
			e.Attempt = uint32(n)
		case "head":
			e.Head = n
		case "bytes":
			e.Bytes = int64(n)
		case "where":
			e.Where = value
		case "end":
			e.End = true
		case "err":
			e.Err = strings.TrimPrefix(strings.Join(words[1+i:], " "), "err=")
			return e, nil
		default:
			return e, fmt.Errorf("no field %q", w)
		}
	}
	return e, nil
}

var actionNames = [...]string{ActTake: "take", ActDrain: "drain", ActCapture: "capture", ActDiscard: "discard", ActRestore: "restore", ActTell: "tell", ActMark: "mark", ActExit: "exit"}

func describe(a Action) string {
	line := actionNames[a.Type]
	if a.Type == ActTell {
		line += " " + a.State.String()
	}
	if a.Head != 0 {
		line += fmt.Sprintf(" head=%d", a.Head)
	}
	if a.Bytes != 0 {
		line += fmt.Sprintf(" bytes=%d", a.Bytes)
	}
	if a.Where != "" {
		line += " where=" + a.Where
	}
	if a.Attempt != 1 {
		line += fmt.Sprintf(" attempt=%d", a.Attempt)
	}
	if a.Err != "" {
		line += ": " + a.Err
	}
	return line
}

// world is what the rules are about: a server that does as the machine says.
type world struct {
	taking, draining, capturing, written, marked, exited bool
}

func (w *world) do(t *rapid.T, m *Machine, a Action) {
	if w.exited {
		t.Fatalf("%s after exit", describe(a))
	}
	switch a.Type {
	case ActTake:
		w.taking, w.draining = true, false
	case ActDrain:
		w.taking, w.draining = false, true
	case ActCapture:
		w.capturing = true
	case ActDiscard:
		w.capturing, w.written = false, false
	case ActMark:
		w.marked, w.taking, w.capturing = true, false, false
	case ActExit:
		w.exited, w.taking = true, false
	}
}

// TestRules feeds events in any order, late and doubled ones too, and checks the rules after each.
func TestRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Machine
		var w world
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			e := Event{Type: EventType(rapid.IntRange(1, int(EvGone)).Draw(t, "type")), Attempt: uint32(rapid.IntRange(0, 3).Draw(t, "attempt")),
				Head: uint64(rapid.IntRange(0, 2).Draw(t, "head")), End: rapid.Bool().Draw(t, "end"), Err: "x"}
			if e.Type == EvIdle && !w.draining || e.Type == EvCaptured && !w.capturing {
				continue // no server says so
			}
			before := m.state
			if e.Type == EvCaptured && before == Capturing && e.Attempt == m.attempt {
				w.capturing, w.written = false, true
			}
			actions := m.Step(e)
			for _, a := range actions {
				w.do(t, &m, a)
			}
			if e.Type < EvIdle && before != Ended && !slices.ContainsFunc(actions, func(a Action) bool { return a.Type != ActDiscard }) {
				t.Fatalf("%v in %v is not answered", e.Type, before)
			}
			check(t, &m, &w)
		}
	})
}

func check(t *rapid.T, m *Machine, w *world) {
	for _, rule := range []struct {
		name string
		ok   bool
	}{
		{"commands are taken in Running only", w.taking == (m.state == Running)},
		{"a capture is written in Capturing only", w.capturing == (m.state == Capturing)},
		{"a capture that was told lies where it belongs", m.state != Captured || w.written},
		{"the ring is marked when the device is lost", w.marked == (m.state == Lost) || w.exited},
		{"an ended process is over", w.exited == (m.state == Ended)},
	} {
		if !rule.ok {
			t.Fatalf("%v: broken: %s (%+v)", m.state, rule.name, *w)
		}
	}
}
