package engine_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// painted is a mem that shows something else on the peer's boards.
type painted struct {
	*mem.Module
	board []byte
}

func (m *painted) PeerBoard(peer, i int) []byte { return m.board }

// takeOrGiveUp takes a turn, and gives it up if it has to be waited for.
func takeOrGiveUp(e *engine.Engine, team *engine.Team, x *engine.Turn) (engine.Status, error) {
	given, cancel := context.WithCancel(context.Background())
	defer cancel()
	v := engine.NewView(given, e)
	defer v.Stop()
	over := make(chan struct{})
	go func() {
		waitUntil(func() bool {
			select {
			case <-over:
				return true
			default:
				return e.Blocked() != ""
			}
		})
		cancel()
	}()
	defer close(over)
	return e.Take(team, x, v)
}

// Whatever is on a peer's board, a turn ends with it or waits for it.
func FuzzBoard(f *testing.F) {
	line := func(word uint64, tag int32, size uint32, payload string) []byte {
		b := binary.NativeEndian.AppendUint64(nil, word)
		b = binary.NativeEndian.AppendUint32(b, uint32(tag))
		return append(binary.NativeEndian.AppendUint32(b, size), payload...)
	}
	f.Add(line(1, 7, 5, "hello"), uint8(0), uint16(5))
	f.Add(line(1, 7, 1<<31|5, "hello"), uint8(1), uint16(5))
	f.Add(line(1, 7, 4096, ""), uint8(2), uint16(4096))
	f.Add(line(1, 7, 4097, ""), uint8(0), uint16(4097))
	f.Add(line(1, 7, 1<<31-1, ""), uint8(0), uint16(0))
	f.Add(line(2, 7, 0, ""), uint8(0), uint16(0))
	f.Add(line(0, 7, 0, ""), uint8(0), uint16(0))
	f.Add(line(1<<63, 7, 0, ""), uint8(1), uint16(0))
	for told := range byte(4) {
		f.Add(line(1, 7, 5, string(append(make([]byte, 44), told))), uint8(3), uint16(5))
	}
	f.Fuzz(func(t *testing.T, data []byte, need uint8, want uint16) {
		fabric := mem.NewFabric(2)
		m := &painted{fabric.Module(0).(*mem.Module), make([]byte, len(fabric.Module(1).(*mem.Module).Board(0)))}
		e := connect(t, []rpi.Module{m, fabric.Module(1)}, false)
		defer func() {
			for _, e := range e {
				e.Close()
			}
		}()
		teams := joinTeam(t, e, ctx)
		copy(m.board[64:], data) // the place of the first line
		if binary.NativeEndian.Uint64(m.board[64:]) == 0 {
			t.Log("there is none")
		}
		x := &engine.Turn{Tag: 7, Need: engine.Need(need % 3), One: int(need) % 3 % 2, Want: int(want), Len: int(want), Into: make([]byte, 2*int(want)), Stride: int(want)}
		x.Once = x.Need == engine.Everybody && need != 0
		if x.Send = make([]byte, min(int(want), teams[0].Piece())); x.Need == engine.FromOne {
			x.Send = nil
		}
		st, err := takeOrGiveUp(e[0], teams[0], x)
		switch {
		case err != nil && !errors.Is(err, engine.ErrPeerFailed) && !errors.Is(err, engine.ErrDeadline) || st.Bytes > 1<<16:
			t.Fatalf("%+v, %v", st, err)
		case err == nil && st.Tag == 7 && st.Bytes == int(want) && int(want) > teams[0].Piece():
			t.Fatalf("%d bytes on a board for %d", want, teams[0].Piece())
		}
	})
}

// Whatever a peer sends as a line, it is taken, dropped, or the end of the
// channel; turns go on or say why not.
func FuzzLine(f *testing.F) {
	f.Add(uint8(0), int32(7), uint64(1), []byte("hello"), uint64(ctx))
	f.Add(rpi.FlagMirrored, int32(7), uint64(1), make([]byte, 4096), uint64(ctx))
	f.Add(rpi.FlagGone, int32(7), uint64(2), []byte{}, uint64(ctx))
	f.Add(uint8(0), int32(7), uint64(64), []byte{}, uint64(ctx))
	f.Add(uint8(0), int32(7), uint64(65), []byte{}, uint64(ctx))
	f.Add(uint8(0), int32(7), uint64(1)<<63, make([]byte, 4097), uint64(ctx))
	f.Add(uint8(0), int32(7), uint64(0), []byte{}, uint64(ctx))
	f.Add(uint8(0), int32(7), uint64(1), []byte("x"), uint64(3))
	f.Fuzz(func(t *testing.T, flags uint8, tag int32, off uint64, payload []byte, c uint64) {
		if len(payload) > rpi.MaxFrame {
			return
		}
		fabric := mem.NewFabric(2)
		e := connect(t, []rpi.Module{fabric.Module(0), fabric.Module(1)}, false)
		defer func() {
			for _, e := range e {
				e.Close()
			}
		}()
		teams := joinTeam(t, e, ctx)
		fabric.Module(1).Send(0, &rpi.Header{Kind: rpi.Line, Flags: flags, Tag: tag, Off: off, Ctx: c, Len: uint64(len(payload))}, payload, 0, false)
		e[0].Progress()
		st, err := takeOrGiveUp(e[0], teams[0], &engine.Turn{Tag: 7})
		if err != nil && !errors.Is(err, engine.ErrPeerFailed) && !errors.Is(err, engine.ErrDeadline) || err == nil && off != 1 {
			t.Fatalf("%+v, %v", st, err)
		}
	})
}

// A place survives its encoding.
func TestPlace(t *testing.T) {
	var p [engine.PlaceSize]byte
	for _, a := range []engine.Place{{}, {Board: -1}, {Board: 7, Size: 1 << 30, Base: 1 << 63}} {
		a.Encode(p[:])
		var b engine.Place
		if b.Decode(p[:]); a != b {
			t.Errorf("%+v comes back as %+v", a, b)
		}
	}
}
