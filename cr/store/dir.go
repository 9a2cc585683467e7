package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Dir is a folder that all nodes see: ROOT/<set>/<piece>. Its pieces are files, written and read as files are.
type Dir struct{ root string }

var _ interface {
	Store
	Pather
} = (*Dir)(nil)

// OpenDir returns the store in the folder root, which need not exist yet.
func OpenDir(root string) *Dir { return &Dir{root} }

// KindDir is the kind of a Dir. KindMem is that of memory, see package mem: what is there ends with the job.
const (
	KindDir = "dir"
	KindMem = "mem"
)

// Kind is KindDir.
func (d *Dir) Kind() string { return KindDir }

// Shared is true.
func (d *Dir) Shared() bool { return true }

// Root is the folder.
func (d *Dir) Root() string { return d.root }

// Path is the file of a piece.
func (d *Dir) Path(set, piece string) (string, error) {
	if err := errors.Join(CheckSet(set), CheckPiece(piece)); err != nil {
		return "", err
	}
	return filepath.Join(d.root, set, piece), nil
}

// Begin makes the set's folder, and those above it if need be.
func (d *Dir) Begin(_ context.Context, set string) error {
	if err := CheckSet(set); err != nil {
		return err
	}
	path := filepath.Join(d.root, set)
	err := os.Mkdir(path, 0o700)
	// Who removes the last set of a job may remove the folders above between the two calls.
	for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < 10; tries++ {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		err = os.Mkdir(path, 0o700)
	}
	return err
}

// Create begins the file of a piece.
func (d *Dir) Create(_ context.Context, set, piece string, opt Options) (Writer, error) {
	path, err := d.Path(set, piece)
	if err != nil {
		return nil, err
	}
	return CreateFile(path, opt, false)
}

// Commit makes the names in the set's folder durable.
func (d *Dir) Commit(_ context.Context, set string) error {
	if err := CheckSet(set); err != nil {
		return err
	}
	return SyncFolder(filepath.Join(d.root, set))
}

// Open opens the file of a piece.
func (d *Dir) Open(_ context.Context, set, piece string) (Reader, error) {
	path, err := d.Path(set, piece)
	if err != nil {
		return nil, err
	}
	return OpenFile(path)
}

// Stat looks at the file of a piece.
func (d *Dir) Stat(_ context.Context, set, piece string) (Info, error) {
	path, err := d.Path(set, piece)
	if err != nil {
		return Info{}, err
	}
	st, err := os.Lstat(path)
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	if err != nil {
		return Info{}, err
	}
	return Info{Name: piece, Size: st.Size()}, nil
}

// List lists the regular files of the set's folder that may be pieces.
func (d *Dir) List(_ context.Context, set string) ([]Info, error) {
	if err := CheckSet(set); err != nil {
		return nil, err
	}
	es, err := os.ReadDir(filepath.Join(d.root, set))
	if err != nil {
		return nil, err
	}
	var all []Info
	for _, e := range es {
		if CheckPiece(e.Name()) != nil || !e.Type().IsRegular() {
			continue
		}
		st, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Info{Name: e.Name(), Size: st.Size()})
	}
	return all, nil
}

// Sets lists the folders below the prefix's.
func (d *Dir) Sets(_ context.Context, prefix string) ([]string, error) {
	if err := CheckSet(prefix); err != nil {
		return nil, err
	}
	es, err := os.ReadDir(filepath.Join(d.root, prefix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range es {
		if isElement(e.Name()) && e.IsDir() {
			all = append(all, prefix+"/"+e.Name())
		}
	}
	slices.Sort(all)
	return all, nil
}

// Remove removes the set's folder.
func (d *Dir) Remove(_ context.Context, set string) error {
	if err := CheckSet(set); err != nil {
		return err
	}
	path := filepath.Join(d.root, set)
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	err := SyncFolder(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
