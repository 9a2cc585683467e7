package engine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// posters is a mem that shows boards of the test's, by peer.
type posters struct {
	*mem.Module
	boards [][]byte
}

func (m *posters) PeerBoard(peer, i int) []byte { return m.boards[peer] }

// line is what a test puts on a board as that of the first turn.
type line struct {
	tag        int32
	size, told uint32
}

func (l line) on(board []byte, turn uint64) {
	b := board[64*turn:]
	binary.NativeEndian.PutUint64(b, turn)
	binary.NativeEndian.PutUint32(b[8:], uint32(l.tag))
	binary.NativeEndian.PutUint32(b[12:], l.size)
	binary.NativeEndian.PutUint32(b[60:], l.told)
}

// In a turn without payload, or one that is put together once, a member that was in the same turn
// may tell that it is over. What all want is taken from where that member says.
func TestOutrun(t *testing.T) {
	const n, me, tag, unreached = 5, 1, 7, 1 << 31
	for _, c := range []struct {
		name  string
		who   int // 0 is the member before this one
		line  line
		bytes int // that are wanted
		over  bool
	}{
		{"the member before", 0, line{tag, 0, 1}, 0, true},
		{"who does not reach all", 0, line{tag, unreached, 1}, 0, true},
		{"one before that", 4, line{tag, 0, 1}, 0, true},
		{"the first that is looked at", 2, line{tag, 0, 1}, 0, true},
		{"the first that is looked at, which does not know", 2, line{tag, 0, 0}, 0, false},
		{"the first that is looked at, which names nobody", 2, line{tag, 0, n + 1}, 0, false},
		{"the first that is looked at, in another turn", 2, line{tag + 1, 0, 1}, 0, false},
		{"who has not come to its end", 0, line{tag, 0, 0}, 0, false},
		{"who was in another turn", 0, line{tag + 1, 0, 1}, 0, false},
		{"whose line is not empty", 0, line{tag, 8, 1}, 0, false},
		{"who names nobody", 0, line{tag, 0, n + 1}, 0, false},
		{"who has it", 0, line{tag, 8, 1}, 8, true},
		{"who knows who has it", 4, line{tag, 8, 3}, 8, true},
		{"the first that is looked at and knows who has it", 2, line{tag, 8, 5}, 8, true},
		{"the first that is looked at, which has one of another length", 2, line{tag, 9, 1}, 8, false},
		{"who does not know yet", 4, line{tag, 8, 0}, 8, false},
		{"who was in one of another length", 0, line{tag, 9, 1}, 8, false},
		{"who names nobody, of a payload", 0, line{tag, 8, n + 1}, 8, false},
		{"of a long payload", 0, line{tag, 100, 4}, 100, true},
	} {
		fabric := mem.NewFabric(n)
		modules := make([]rpi.Module, n)
		for i := range modules {
			modules[i] = fabric.Module(i)
		}
		m := &posters{Module: fabric.Module(me).(*mem.Module)}
		for range n {
			m.boards = append(m.boards, make([]byte, len(m.Board(0))))
		}
		modules[me] = m
		e := connect(t, modules, false)
		teams := joinTeam(t, e, ctx)
		c.line.on(m.boards[c.who], 1)
		want := pattern(n*c.bytes, 3)
		if k := int(c.line.told) - 1; 0 <= k && k < n {
			at := 65*64 + teams[me].Piece() // the second place for long payloads
			if c.bytes > 44 {
				at += (c.bytes + 63) &^ 63
			}
			copy(m.boards[k][at:], want)
		}
		x := &engine.Turn{Tag: tag, Once: true, Send: make([]byte, c.bytes), Want: c.bytes, Len: c.bytes, Stride: c.bytes, Into: make([]byte, n*c.bytes)}
		st, err := takeOrGiveUp(e[me], teams[me], x)
		if over := err == nil && st.Tag == tag && st.Bytes == c.bytes && bytes.Equal(x.Into, want); over != c.over {
			t.Errorf("%s: %+v, %v", c.name, st, err)
		}
		for _, e := range e {
			e.Close()
		}
	}
}

// What cannot be put together once for all is refused.
func TestNotOnce(t *testing.T) {
	e := memJob(t, 2)
	teams := joinTeam(t, e, ctx)
	buf := make([]byte, 8)
	for _, x := range []engine.Turn{
		{Need: engine.FromOne, Want: 8, Len: 8, Into: buf},
		{Need: engine.ToOne, Want: 8, Len: 8, Into: make([]byte, 16), Stride: 8},
		{Send: buf, Want: 8, Len: 4, Into: buf, Stride: 4},
		{Send: buf, Want: 8, Len: 4, Into: buf, Own: true, Combine: sequence{}},
		{Send: buf, Want: 8, Len: 8, Into: make([]byte, 16), Stride: 8, TailLen: 1, TailInto: buf},
	} {
		x.Once = true
		if _, err := takeOrGiveUp(e[0], teams[0], &x); err == nil || errors.Is(err, engine.ErrDeadline) {
			t.Errorf("%+v: %v", x, err)
		}
	}
}
