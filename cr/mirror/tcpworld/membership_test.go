package tcpworld

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/transcript"
)

func TestTranscripts(t *testing.T) { transcript.Play(t, "testdata/*.txt", newScript) }

// script is a coordinator whose connections and clocks are the transcript.
type script struct{ m *membership }

func newScript(line string) (transcript.Machine, error) {
	var size int
	if _, err := fmt.Sscanf(line, "coordinator of %d", &size); err != nil {
		return nil, err
	}
	return &script{newMembership(size)}, nil
}

func (s *script) Do(event []string) (out []string, err error) {
	id := 0
	if len(event) > 1 {
		if id, err = strconv.Atoi(event[1]); err != nil {
			return nil, err
		}
	}
	var actions []any
	switch event[0] {
	case "joined":
		actions = s.m.joined(id, place{Node: event[2]})
	case "gone":
		actions = s.m.gone(id)
	case "leaves":
		actions = s.m.leaves(id, leave{Life: s.m.life, Text: strings.Join(event[2:], " ")})
	case "left-late":
		actions = s.m.leaves(id, leave{Life: s.m.life - 1})
	case "no-spare":
		actions = s.m.noSpare(uint32(id))
	case "no-cause":
		actions = s.m.noCause(uint32(id))
	default:
		return nil, fmt.Errorf("unknown event %q", event[0])
	}
	for _, a := range actions {
		switch a := a.(type) {
		case tellLost:
			out = append(out, fmt.Sprintf("lost %d: %s", a.life, a.text))
		case tellLife:
			out = append(out, fmt.Sprintf("life %d: members %v", a.life, s.m.ranks))
		case waitSpare:
			out = append(out, fmt.Sprintf("wait for a spare in life %d", a.life))
		case waitCause:
			out = append(out, fmt.Sprintf("wait for a cause in life %d", a.life))
		case tellOver:
			out = append(out, strings.TrimSpace("over "+a.text))
		}
	}
	return out, nil
}

func FuzzNote(f *testing.F) {
	for _, n := range []note{{}, {Hello: &place{Node: "a", Addr: "b:1"}}, {View: &view{Life: 1, Ranks: []place{{Node: "a"}}}}, {Lost: &lost{1, "x"}}, {Leave: &leave{Life: 1}}, {Over: &over{"x"}}} {
		var b bytes.Buffer
		if err := writeNote(&b, n); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := readNote(bytes.NewReader(b))
		if err == nil && n.View != nil && n.View.Rank >= len(n.View.Ranks) {
			t.Errorf("rank %d of %d", n.View.Rank, len(n.View.Ranks))
		}
	})
}

func FuzzFrame(f *testing.F) {
	f.Add(append(line{3, 1, blockLine}.encode(), frame{10, 20}.encode()...))
	f.Add(append(line{3, 1, messageLine}.encode(), frame{1 << 31, 20}.encode()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		l, err := readLine(r)
		if err != nil {
			return
		}
		if !bytes.Equal(l.encode(), b[:9]) {
			t.Errorf("%+v", l)
		}
		if h, err := readFrame(r, l.kind); err == nil && (h.body > mostBody || l.kind == blockLine && h.first > mostHead) {
			t.Errorf("%+v", h)
		}
	})
}
