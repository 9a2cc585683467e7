package state

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Kinds of sections in a native image.
const (
	KindProcess = "process"
	KindPages   = "pages"
	KindFile    = "file"
	KindPipe    = "pipe"
	KindShared  = "shared"
	KindSysV    = "sysv"
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
	if errors.As(err, new(*image.Error)) {
		return nil, err // it names file and section
	}
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
	if m.Format > FormatOfTimer {
		return nil, fmt.Errorf("%w: %w: format %d of native images, this gorun reads up to %d (use the newer one that wrote it)",
			ErrImage, image.ErrVersion, m.Format, FormatOfTimer)
	}
	if m.Arch != "amd64" || m.BigEndian {
		return nil, fmt.Errorf("%w: of architecture %.20q; native images are restored on amd64", ErrImage, m.Arch)
	}
	left := int64(maxState) // of all of the family
	s, err := decodeOne(img, SectionName, &left)
	if err != nil {
		return nil, err
	}
	for _, id := range s.Family {
		m, err := decodeOne(img, Prefix(id)+SectionName, &left)
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", id, err)
		}
		s.Members = append(s.Members, m)
	}
	return s, s.Validate()
}

// decodeOne reads that of one process.
func decodeOne(img *image.Reader, name string, left *int64) (*State, error) {
	sec, ok := img.Lookup(KindProcess, name)
	if !ok {
		return nil, fmt.Errorf("%w: %w", ErrImage, image.ErrNoSection)
	}
	if sec.Size > uint64(*left) {
		return nil, fmt.Errorf("%w: state of %d bytes", ErrImage, sec.Size)
	}
	*left -= int64(sec.Size)
	p := make([]byte, sec.Size)
	if err := img.ReadSection(KindProcess, name, p); err != nil {
		return nil, err
	}
	s := &State{}
	if err := json.Unmarshal(p, s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrImage, err)
	}
	if len(s.Family) > maxFamily {
		return nil, fmt.Errorf("%w: %d processes", ErrImage, len(s.Family))
	}
	*s = s.each(rawstring.Unescape)
	return s, nil
}
