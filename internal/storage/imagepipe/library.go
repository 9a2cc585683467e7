package imagepipe

import (
	"errors"
	"fmt"
	"io"

	"github.com/gorun-mpi/gorun/cr/image"
)

// Library is the path of a Shelf as a rank gets it.
type Library string

// Image is a copy, counted from 0, of the image of a rank. To open one more than there are is io.EOF.
func (l Library) Image(rank, copy int) image.Source { return shelved{l, rank, copy} }

// shelved is an image of a Library.
type shelved struct {
	lib        Library
	rank, copy int
}

// String names the image.
func (s shelved) String() string { return fmt.Sprintf("of rank %d of the snapshot", s.rank) }

// Open asks the agent where the image is, and opens the file or a reader through the agent.
func (s shelved) Open() (*image.Reader, error) {
	r, path, err := s.ask()
	switch {
	case err != nil:
		return nil, &image.Error{Op: "read", Path: s.String(), Err: err}
	case r == nil:
		return image.Open(path)
	}
	return image.OpenPiece(r, s.String())
}

func (s shelved) ask() (r *reader, path string, err error) {
	name, ok := File(s.lib).outlet()
	if !ok {
		return nil, "", fmt.Errorf("%w: %s is no shelf", ErrProtocol, s.lib)
	}
	c, err := dial(name)
	if err != nil {
		return nil, "", err
	}
	if _, err := c.Write(frame{kindOpen, int64(s.rank), s.copy}.encode()); err != nil {
		c.Close()
		return nil, "", fmt.Errorf("its agent has ended: %w", err)
	}
	p := make([]byte, maxText)
	n, err := readAnswer(c, p)
	if err == nil && n == 0 {
		r, err = readerOn(c)
		return r, "", err
	}
	if e := c.Close(); err == nil {
		err = e
	}
	if errors.Is(err, io.EOF) {
		err = io.EOF
	}
	return nil, string(p[:n]), err
}
