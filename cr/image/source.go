package image

import (
	"context"

	"github.com/gorun-mpi/gorun/cr/store"
)

// Source is where an image can be read, any number of times.
type Source interface {
	// Open opens the image; the caller closes it.
	Open() (*Reader, error)
	// String is its name in errors.
	String() string
}

// Target is where an image can be written.
type Target interface {
	// Create begins the image.
	Create(m Meta, opt Options) (*Writer, error)
	// String is its name in errors.
	String() string
}

// Path is the Source and the Target that a file is.
type Path string

// Open opens the file.
func (p Path) Open() (*Reader, error) { return Open(string(p)) }

// Create begins the file.
func (p Path) Create(m Meta, opt Options) (*Writer, error) { return Create(string(p), m, opt) }

func (p Path) String() string { return string(p) }

// Piece is the Source that a piece of a store is.
type Piece struct {
	Context context.Context // of reading
	Store   store.Reading
	Set     string
	Name    string
}

// Open opens the piece.
func (p Piece) Open() (*Reader, error) {
	r, err := p.Store.Open(p.Context, p.Set, p.Name)
	if err != nil {
		return nil, &Error{Op: "read", Path: p.String(), Err: err}
	}
	return OpenPiece(r, p.String())
}

// String is the piece's path if it is a file here, else its set and name.
func (p Piece) String() string {
	if at, ok := p.Store.(store.Pather); ok {
		if path, err := at.Path(p.Set, p.Name); err == nil {
			return path
		}
	}
	return p.Set + "/" + p.Name
}

// NewPiece is the Target that a piece to be is.
type NewPiece struct {
	Context context.Context // of writing
	Store   store.Store
	Set     string
	Name    string
	Size    int64 // bytes that it will have at most; 0: not known
}

// Create begins the piece.
func (p NewPiece) Create(m Meta, opt Options) (*Writer, error) {
	out, err := p.Store.Create(p.Context, p.Set, p.Name, store.Options{NoDirect: opt.NoDirect, Passing: opt.Passing, Size: p.Size})
	if err != nil {
		return nil, &Error{Op: "write", Path: p.String(), Err: err}
	}
	return NewWriter(out, p.String(), m, opt)
}

// String is the piece's set and name.
func (p NewPiece) String() string { return p.Set + "/" + p.Name }

// Paths are the Sources that files are.
func Paths(paths []string) []Source {
	all := make([]Source, len(paths))
	for i, p := range paths {
		all[i] = Path(p)
	}
	return all
}
