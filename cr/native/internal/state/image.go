package state

import (
	"encoding/json"
	"fmt"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/exact"
)

// Kinds of sections in a native image.
const (
	KindProcess = "process"
	KindPages   = "pages"
	KindFile    = "file"
	KindPipe    = "pipe"
)

// SectionName is the section that holds State.
const SectionName = "state"

// maxState bounds the section that holds State.
const maxState = 256 << 20

// Read reads what an image holds of a process beside its memory, and checks that it can
// be one.
func Read(src image.Source) (*State, error) {
	img, err := src.Open()
	if err != nil {
		return nil, err
	}
	defer img.Close()
	s, err := Decode(img)
	if err != nil {
		return nil, &image.Error{Op: "read", Path: img.Path(), Section: SectionName, Err: err}
	}
	return s, nil
}

// Decode reads the state of an image, and checks that it can be one.
func Decode(img *image.Reader) (*State, error) {
	m := img.Meta()
	if m.Backend != Backend {
		return nil, fmt.Errorf("%w: made by back-end %.20q", ErrImage, m.Backend)
	}
	if m.Format > Format {
		return nil, fmt.Errorf("%w: %w: format %d of native images, this gorun reads up to %d (use the newer one that wrote it)",
			ErrImage, image.ErrVersion, m.Format, Format)
	}
	if m.Arch != "amd64" || m.BigEndian {
		return nil, fmt.Errorf("%w: of architecture %.20q; native images are restored on amd64", ErrImage, m.Arch)
	}
	sec, ok := img.Lookup(KindProcess, SectionName)
	if !ok {
		return nil, fmt.Errorf("%w: %w", ErrImage, image.ErrNoSection)
	}
	if sec.Size > maxState {
		return nil, fmt.Errorf("%w: state of %d bytes", ErrImage, sec.Size)
	}
	p := make([]byte, sec.Size)
	if err := img.ReadSection(KindProcess, SectionName, p); err != nil {
		return nil, err
	}
	s := &State{}
	if err := json.Unmarshal(p, s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrImage, err)
	}
	*s = s.each(exact.Unescape)
	return s, s.Validate()
}
