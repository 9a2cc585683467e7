package ckpt

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/bookmarks"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// A Dests message says to which ranks others have sent. Its data are pairs of little-endian u64: a rank, and
// how many ranks have sent to it. A says for how many ranks the message speaks. In a rank's own message A is 1,
// and every number is 1.

// dests encodes a rank's own message.
func dests(sent bookmarks.Counts) []byte {
	p := make([]byte, 0, 16*len(sent))
	for _, c := range sent {
		p = binary.LittleEndian.AppendUint64(p, uint64(c.Peer))
		p = binary.LittleEndian.AppendUint64(p, 1)
	}
	return p
}

// DestSum adds up the Dests of several ranks: in an agent those of its own ranks, in the head all. One value
// serves all attempts of an incarnation, one after the other. Messages of an older attempt are dropped.
type DestSum struct {
	ranks   int // to wait for
	attempt uint32
	have    int
	from    map[int32]struct{}
	senders map[uint64]uint64
}

// NewDestSum returns a sum over so many ranks.
func NewDestSum(ranks int) *DestSum { return &DestSum{ranks: ranks} }

// Add takes one message of kind Dests, of a rank or already summed. If it is the last of its attempt, Add
// returns the sum, with done true. The caller sets From and To. A message that comes twice counts once.
func (d *DestSum) Add(m oob.Msg) (sum oob.Msg, done bool, err error) {
	if m.Attempt < d.attempt {
		return sum, false, nil
	}
	if m.Attempt > d.attempt || d.from == nil {
		*d = DestSum{ranks: d.ranks, attempt: m.Attempt,
			from: make(map[int32]struct{}), senders: make(map[uint64]uint64)}
	}
	if _, twice := d.from[m.From]; twice {
		return sum, false, nil
	}
	if len(m.Data)%16 != 0 || m.A == 0 || m.A > uint64(d.ranks-d.have) {
		return sum, false, fmt.Errorf("ckpt: Dests of %d: %d bytes for %d ranks, %d of %d known", m.From, len(m.Data), m.A, d.have, d.ranks)
	}
	d.from[m.From] = struct{}{}
	d.have += int(m.A)
	for p := m.Data; len(p) > 0; p = p[16:] {
		d.senders[binary.LittleEndian.Uint64(p)] += binary.LittleEndian.Uint64(p[8:])
	}
	if d.have < d.ranks {
		return sum, false, nil
	}
	return oob.Msg{Kind: oob.Dests, Incarnation: m.Incarnation, Attempt: m.Attempt,
		A: uint64(d.ranks), Data: d.encode()}, true, nil
}

// Senders returns how many ranks have sent to the rank.
func (d *DestSum) Senders(rank int) uint64 { return d.senders[uint64(rank)] }

func (d *DestSum) encode() []byte {
	to := make([]uint64, 0, len(d.senders))
	for rank := range d.senders {
		to = append(to, rank)
	}
	slices.Sort(to)
	p := make([]byte, 0, 16*len(to))
	for _, rank := range to {
		p = binary.LittleEndian.AppendUint64(p, rank)
		p = binary.LittleEndian.AppendUint64(p, d.senders[rank])
	}
	return p
}
