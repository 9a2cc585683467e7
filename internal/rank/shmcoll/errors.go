package shmcoll

import (
	"errors"
	"fmt"
)

var (
	// ErrTurn is wrapped when a team cannot take a turn.
	ErrTurn = errors.New("a turn of a team that is not joined, or closed, or has failed, or is in a turn")
	// ErrLength is wrapped when a turn names bytes that are not there.
	ErrLength = errors.New("a turn names bytes for which there is no room")
	// ErrCorrupt is wrapped when another rank's board is impossible.
	ErrCorrupt = errors.New("corrupt line")
)

// CutError is what Saved returns when one member of a team has taken a turn that another has not:
// the cut goes through a collective.
type CutError struct {
	Ctx   uint64 // of the team
	Rank  int    // a member other than this rank
	Ahead bool   // that member has taken it, this rank has not
}

func (e *CutError) Error() string {
	if e.Ahead {
		return fmt.Sprintf("rank %d has taken a turn of context %#x that this rank has not", e.Rank, e.Ctx)
	}
	return fmt.Sprintf("this rank has taken a turn of context %#x that rank %d has not", e.Ctx, e.Rank)
}
