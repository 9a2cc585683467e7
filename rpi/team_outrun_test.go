package rpi_test

import (
	"encoding/binary"
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// posters is a mem that shows boards of the test's, by peer.
type posters struct {
	*mem.Module
	boards [][]byte
}

func (m *posters) PeerBoard(peer, i int) []byte { return m.boards[peer] }

// A turn without payload is over when a member has gone on from it, if it was in the same.
func TestOutrun(t *testing.T) {
	const n, me, tag = 5, 1, 7
	for _, c := range []struct {
		name       string
		who        int
		tag        int32
		size, last uint32
		over       bool
	}{
		{"the member before", 0, tag, 0, 2, true},
		{"who does not reach all", 0, tag, 1 << 31, 2, true},
		{"one before that", 4, tag, 0, 2, true},
		{"who has not gone on", 0, tag, 0, 1, false},
		{"who was in another turn", 0, tag + 1, 0, 2, false},
		{"whose line is not empty", 0, tag, 8, 2, false},
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
		for turn := range c.last {
			b := m.boards[c.who][64*(turn+1):]
			binary.NativeEndian.PutUint64(b, uint64(turn+1))
			binary.NativeEndian.PutUint32(b[8:], uint32(c.tag))
			binary.NativeEndian.PutUint32(b[12:], c.size)
		}
		st, err := takeOrGiveUp(e[me], teams[me], &rpi.Turn{Tag: tag})
		if over := err == nil && st.Tag == tag && st.Bytes == 0; over != c.over {
			t.Errorf("%s: %+v, %v", c.name, st, err)
		}
		for _, e := range e {
			e.Close()
		}
	}
}
