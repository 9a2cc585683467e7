package restore

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// ErrProgram is wrapped where the executable is not the one that was imaged.
var ErrProgram = errors.New("not the program that was imaged")

// What to do then: snapshots keep the programs of ranks, and only parcels bring those of their children.
const (
	ranksRemedy    = "restart with the program kept beside the snapshot"
	childrenRemedy = "put back the one that was there, or bring the snapshot by gorun snapshots -export and -import, which take it along"
)

// kept is where a file of some content is kept with the snapshot, if it is: beside the executable, by its sum.
func kept(program, digest string) string { return filepath.Join(filepath.Dir(program), digest) }

// childsProgram finds the executable of a child process: where it was, or as it is kept.
func childsProgram(s *state.State, program string) string {
	if _, err := isProgram(s, s.Exe, ""); err != nil && s.ExeSum != "" {
		if _, err := isProgram(s, kept(program, s.ExeSum), ""); err == nil {
			return kept(program, s.ExeSum)
		}
	}
	return s.Exe
}

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
