package s3

import (
	"fmt"
	"os"
)

// spill is a temporary file without a name. It has the parts that are begun and have no buffer.
type spill struct {
	f     *os.File
	parts map[int64]bool
}

func (s *spill) has(i int64) bool { return s.parts[i] }

// put moves a part to the file.
func (s *spill) put(i, size int64, p []byte) error {
	if s.f == nil {
		f, err := os.CreateTemp("", "gorun-parts-")
		if err == nil {
			err = os.Remove(f.Name())
		}
		if err != nil {
			return fmt.Errorf("parts that are not written in order need a temporary file: %w", err)
		}
		s.f, s.parts = f, map[int64]bool{}
	}
	s.parts[i] = true
	return s.write(i*size, p)
}

func (s *spill) write(off int64, p []byte) error {
	_, err := s.f.WriteAt(p, off)
	return err
}

func (s *spill) read(off int64, p []byte) error {
	_, err := s.f.ReadAt(p, off)
	return err
}

func (s *spill) close() {
	if s.f != nil {
		s.f.Close()
	}
}
