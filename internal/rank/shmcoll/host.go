package shmcoll

import (
	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// Host is what teams need from their rank's engine.
type Host interface {
	// Failed returns why a rank has failed, nil if it has not.
	Failed(rank int) error
	// Spoilt is the failure of a rank whose board is impossible.
	Spoilt(rank int, why error) error
	// Near reports whether a rank may share this rank's CPU.
	SharesCPU(rank int) bool
	// Board returns the rank's board i of the module for reading, nil if it is not in reach.
	Board(module shared.Boards, rank, i int) []byte
	// On names the communicator of a context, for errors.
	On(ctx uint64) string
	// Enlist asks for SendLine when the rank can be sent something.
	Enlist(rank int)
	// Offer sends a frame to the rank, and reports whether it was accepted.
	Offer(rank int, h *rpi.Header, payload []byte) bool
	// Answer sends a frame without payload when that is possible.
	Answer(rank int, h rpi.Header)
}

// Set is the teams of a rank.
type Set struct {
	host   Host
	boards []ownBoard
	teams  map[uint64]*Team // by context, until all members have given them up
	lines  [][]lineTo       // by rank: members of teams to whom lines are sent
	out    rpi.Header       // scratch: what is being sent
}

// Init makes it the teams of a rank of a job of size ranks.
func (s *Set) Init(host Host, size int) {
	s.host, s.teams, s.lines = host, make(map[uint64]*Team), make([][]lineTo, size)
}

// Drop forgets all teams: their boards are gone.
func (s *Set) Drop() { s.teams = nil }
