package sim

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// boards is the ability to read what others have on theirs. They are small, so that
// payloads of several pieces are common.
type boards struct{ m *module }

const mostBoards = 3

// pieces are how long a piece may be on a board.
var pieces = [mostBoards]int{256, 64, 128}

// boardSize is that of board i. Another transport may have boards of other sizes.
func (s *shape) boardSize(i int) int { return shared.BoardSize(pieces[(i+s.turned)%mostBoards]) }

// plates are the boards of a rank.
type plates struct {
	mem   [mostBoards][]byte
	asked [mostBoards]bool
}

func (b boards) Boards() []int {
	sizes := make([]int, b.m.f.w.shape.boards)
	for i := range sizes {
		sizes[i] = b.m.f.w.shape.boardSize(i)
	}
	return sizes
}

func (b boards) Board(i int) []byte {
	m := b.m
	if uint(i) >= uint(m.f.w.shape.boards) {
		return nil
	}
	if m.plates.mem[i] == nil {
		words := make([]uint64, m.f.w.shape.boardSize(i)/8)
		m.plates.mem[i] = unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	}
	return m.plates.mem[i]
}

func (b boards) PeerBoard(peer, i int) []byte {
	if !b.m.Reaches(peer) {
		return nil
	}
	if to := b.m.f.mods[peer]; b.m.f.w.breaks(boardStale) && to.before.mem[i] != nil {
		return to.before.mem[i]
	}
	return boards{b.m.f.mods[peer]}.Board(i)
}

// Ring wakes those who sleep.
func (b boards) Ring(peers []int) {
	w := b.m.f.w
	if w.breaks(ringForgotten) && w.rng.IntN(4) == 0 {
		return
	}
	for _, peer := range peers {
		if to := b.m.f.mods[peer]; to.armed {
			to.armed, to.woken = false, true
			w.seen.rings++
		}
	}
}

func (b boards) Asleep(peer int) bool { return b.m.f.mods[peer].armed }

func (b boards) Ask(peer, i int) {
	if w := b.m.f.w; !w.breaks(askForgotten) {
		b.m.f.mods[peer].plates.asked[i] = true
		w.seen.asks++
	}
}

func (b boards) Asked(i int) bool {
	a := &b.m.plates.asked[i]
	was := *a
	*a = false
	return was
}

func (b boards) Copy(to, from []byte) int { return copy(to, from) }

// remember keeps what is on a board, as if a copy were made then.
func (p *plates) remember() (copies plates) {
	for i := range p.mem {
		copies.mem[i] = slices.Clone(p.mem[i])
	}
	return copies
}

// spoil breaks rules of boards that have just come back in a new transport.
func (m *module) spoil() {
	w := m.f.w
	for i, mem := range m.plates.mem {
		was := m.before.mem[i]
		switch {
		case mem == nil || was == nil:
		case w.breaks(boardSavedEarly) && m.early.mem[i] != nil:
			copy(mem, m.early.mem[i])
		case w.breaks(toldRestored):
			for at := 0; at < 64*64; at += 64 { // a line: see engine.board
				if bytes.Equal(mem[at:at+8], was[at:at+8]) {
					copy(mem[at+60:at+64], was[at+60:])
				}
			}
		}
	}
}

// line looks at a line that has come as a frame.
func (c *conn) line(h *rpi.Header) {
	c.w.seen.lines++
	if c.w.breaks(linesUnnamed) {
		h.Req %= 64 // the number of the board alone
	}
	if c.w.breaks(apartUntold) && h.Flags&rpi.FlagGone == 0 {
		h.Flags &^= rpi.FlagMirrored
	}
}
