package sessions

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/transcript"
)

// TestTranscripts plays testdata/*.txt. The first line is "rank". An event is its name, then the number of the process, the
// program's wish, "due", and last err=WORDS.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, "testdata/*.txt", func(line string) (transcript.Machine, error) {
		if line != "rank" {
			return nil, fmt.Errorf("cannot make a %q", line)
		}
		return script{new(Rank)}, nil
	})
}

type script struct{ r *Rank }

func (s script) Do(words []string) ([]string, error) {
	if words[0] == "waits" {
		return []string{s.r.Waits(func(id uint64) string { return fmt.Sprintf("device %d", id) })}, nil
	}
	e, err := parse(words)
	if err != nil {
		return nil, err
	}
	return describe(s.r.Step(e)), nil
}

func parse(words []string) (e Event, err error) {
	t := slices.Index(eventNames[:], words[0])
	if t < 1 {
		return e, fmt.Errorf("no event %q", words[0])
	}
	e.Type = EventType(t)
	for i, w := range words[1:] {
		if text, ok := strings.CutPrefix(w, "err="); ok {
			e.Err = strings.Join(append([]string{text}, words[i+2:]...), " ")
			break
		}
		if op := slices.Index(opNames[:], w); op > 0 {
			e.Op = Op(op)
		} else if w == "due" {
			e.Due = true
		} else if e.ID, err = strconv.ParseUint(w, 10, 64); err != nil {
			return e, err
		}
	}
	return e, nil
}

func describe(actions []Action) (lines []string) {
	for _, a := range actions {
		line := a.Type.String()
		if a.ID != 0 {
			line += fmt.Sprintf(" %d", a.ID)
		}
		if a.Err != "" {
			line += " err=" + a.Err
		}
		lines = append(lines, line)
	}
	return lines
}
