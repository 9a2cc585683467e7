package native

import "fmt"

// isProgram checks that path is the executable that was imaged: byte for byte
// where its sum is known, since pages of its text are not in the image.
func (s *State) isProgram(path string) error {
	const remedy = "restart with the program kept beside the snapshot"
	p, err := readProgram(path)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w (%s)", ErrProgram, err, remedy)
	case s.ExeSum != "" && p.sum != s.ExeSum, s.BuildID != "" && p.buildID != s.BuildID:
		return fmt.Errorf("%w: %s differs from %s as it was (%s)", ErrProgram, path, s.Exe, remedy)
	}
	return nil
}
