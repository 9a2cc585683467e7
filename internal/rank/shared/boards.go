package shared

// Boards is implemented by modules with memory of each rank that others can read in place. Teams
// (see package shmcoll) use it. Only its owner writes a board.
type Boards interface {
	// Boards returns, for each of this rank's boards, how many bytes (see BoardSize) a team should
	// use. The board to use first comes first. The slice stays the module's.
	Boards() []int
	// Board returns this rank's board i, nil if there is none. It begins with a cache line and is
	// all zeros at first. It may have more bytes than are used.
	Board(i int) []byte
	// PeerBoard returns the peer's board i for reading, nil if this rank does not reach it. If one
	// rank reaches another's boards, the other reaches the first one's.
	PeerBoard(peer, i int) []byte
	// Ring wakes those peers that sleep or are about to. A peer that is about to sleep and is not
	// woken sees what the caller stored before, if it looks after Arm.
	Ring(peers []int)
	// Asleep reports whether Ring would wake the peer.
	Asleep(peer int) bool
	// Ask marks board i of a peer. Asked reports whether a peer has marked this rank's board i
	// since the last call. A restart may lose marks.
	Ask(peer, i int)
	Asked(i int) bool
	// Copy is copy, to or from a board.
	Copy(to, from []byte) int
}

const (
	// BoardHead is how many bytes of a board lines take. BoardBulks is how many places for long
	// payloads follow them. See package shmcoll.
	BoardHead  = 65 * 64
	BoardBulks = 2
)

// BoardSize returns the bytes of a board for pieces of so many bytes. Boards.Boards counts in such
// bytes.
func BoardSize(piece int) int { return BoardHead + BoardBulks*piece }
