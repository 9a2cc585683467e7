package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Dir is a folder that all nodes see: ROOT/<set>/<piece>. Its pieces are files, written and read as
// files are. ROOT may belong to any user, such as a shared folder; what is below is this user's
// own, or is refused.
type Dir struct {
	root  string
	trust bool
}

var _ interface {
	Store
	Pather
} = (*Dir)(nil)

// OpenDir returns the store in the folder root, which need not exist yet.
func OpenDir(root string) *Dir { return &Dir{root: root} }

// Trusting is the store, to be read whoever has written what is there.
func (d *Dir) Trusting() *Dir { return &Dir{d.root, true} }

// open opens the folder of a set, or of those with a prefix, by descriptors.
func (d *Dir) open(set string) (*owned.Folder, error) {
	return owned.Below(d.root, d.trust, strings.Split(set, "/")...)
}

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
	err := d.begin(set)
	// Who removes the last set of a job may remove the folders above between two calls.
	for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < 10; tries++ {
		if err := os.MkdirAll(filepath.Join(d.root, filepath.Dir(set)), 0o700); err != nil {
			return err
		}
		err = d.begin(set)
	}
	return err
}

// begin makes the set's folder in those above, of which another user may have made one.
func (d *Dir) begin(set string) error {
	names := strings.Split(set, "/")
	above, err := owned.Below(d.root, false, names[:len(names)-1]...)
	if err != nil {
		return err
	}
	defer above.Close()
	return above.Mkdir(names[len(names)-1])
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
	own, err := d.of(set, piece)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	f, err := own.Open(piece)
	if err != nil {
		return nil, notRegular(err)
	}
	return readerOf(f)
}

// of opens the folder of a set, for one of its pieces.
func (d *Dir) of(set, piece string) (*owned.Folder, error) {
	if err := errors.Join(CheckSet(set), CheckPiece(piece)); err != nil {
		return nil, err
	}
	return d.open(set)
}

func notRegular(err error) error {
	if errors.Is(err, owned.ErrKind) {
		err = fmt.Errorf("%w: %w", err, ErrNotRegular)
	}
	return err
}

// Stat looks at the file of a piece.
func (d *Dir) Stat(_ context.Context, set, piece string) (Info, error) {
	own, err := d.of(set, piece)
	if err != nil {
		return Info{}, err
	}
	defer own.Close()
	size, err := own.Size(piece)
	if err != nil {
		return Info{}, notRegular(err)
	}
	return Info{Name: piece, Size: size}, nil
}

// List lists the regular files of the set's folder that may be pieces.
func (d *Dir) List(_ context.Context, set string) ([]Info, error) {
	if err := CheckSet(set); err != nil {
		return nil, err
	}
	own, err := d.open(set)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	es, err := own.Entries()
	if err != nil {
		return nil, err
	}
	var all []Info
	for _, e := range es {
		if CheckPiece(e.Name()) != nil || !e.Type().IsRegular() {
			continue
		}
		size, err := own.Size(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Info{Name: e.Name(), Size: size})
	}
	return all, nil
}

// Sets lists the folders below the prefix's.
func (d *Dir) Sets(_ context.Context, prefix string) ([]string, error) {
	if err := CheckSet(prefix); err != nil {
		return nil, err
	}
	own, err := d.open(prefix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer own.Close()
	es, err := own.Entries()
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
	own, err := d.open(set)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	own.Close()
	names := strings.Split(set, "/")
	last := len(names) - 1
	above, err := owned.Below(d.root, false, names[:last]...)
	if err != nil {
		return err
	}
	defer above.Close()
	if err := above.RemoveAll(names[last]); err != nil {
		return err
	}
	return above.Sync()
}
