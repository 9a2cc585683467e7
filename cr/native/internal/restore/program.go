package restore

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// ErrProgram is wrapped where the executable is not the one that was imaged.
var ErrProgram = errors.New("not the program that was imaged")

// What to do then: snapshots keep the programs of ranks, not those of their children.
const (
	ranksRemedy    = "restart with the program kept beside the snapshot"
	childrenRemedy = "put back the one that was there: snapshots do not keep the programs of child processes"
)

// isProgram checks that path is the executable that was imaged: byte for byte
// where its sum is known, since pages of its text are not in the image.
func isProgram(s *state.State, path, remedy string) (runtimes.Program, error) {
	p, err := runtimes.ReadProgram(path)
	switch {
	case err != nil:
		return p, fmt.Errorf("%w: %w (%s)", ErrProgram, err, remedy)
	case s.ExeSum != "" && p.Sum != s.ExeSum, s.BuildID != "" && p.BuildID != s.BuildID:
		return p, fmt.Errorf("%w: %s differs from %s as it was (%s)", ErrProgram, path, s.Exe, remedy)
	}
	return p, nil
}
