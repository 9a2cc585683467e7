package interval

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/transcript"
)

func TestPhases(t *testing.T) {
	transcript.Play(t, "testdata/phases*.txt", func(line string) (transcript.Machine, error) {
		b := &beside{}
		_, err := fmt.Sscanf(line, "phases of %d nodes", &b.nodes)
		return b, err
	})
}

// beside plays Phases. Events are
//
//	still +writing -copying ... at SECONDS     what begins and ends
//	told NUMBER LOST                           a node's answer, LOST a duration or unknown
type beside struct {
	Phases
	now   Beside
	nodes int
}

func (b *beside) Do(e []string) (actions []string, err error) {
	if e[0] == "told" {
		n, err := strconv.Atoi(e[1])
		if err != nil {
			return nil, err
		}
		lost, err := time.ParseDuration(e[2])
		known := err == nil
		l, all := b.Told(uint32(n), lost, known)
		if !all {
			return nil, nil
		}
		return []string{fmt.Sprintf("%v cost %v, known %v", l.Phase, l.Time.Round(time.Millisecond), l.Known)}, nil
	}
	i := slices.Index(e, "at")
	secs, err := strconv.ParseFloat(e[i+1], 64)
	if err != nil {
		return nil, err
	}
	for _, word := range e[:i] {
		flag := map[string]*bool{"still": &b.now.Still, "writing": &b.now.Writing, "copying": &b.now.Copying, "mending": &b.now.Mending}[word[1:]]
		if flag == nil {
			return nil, fmt.Errorf("%q: what is that?", word)
		}
		*flag = word[0] == '+'
	}
	if n, p, begun := b.Enter(b.now, b.nodes, seconds(secs)); begun {
		actions = []string{fmt.Sprintf("ask %d: %v", n, p)}
	}
	return actions, nil
}
