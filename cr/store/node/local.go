package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Local is the part of the store that lies on this node. It is what a node offers to others.
type Local struct{ *store.Dir }

var _ Part = Local{}

// Expand makes the folder of one node of what the user gave for all: "%n" is the node's name, "%%" a percent sign.
// Errors: ErrFolder.
func Expand(folder, node string) (string, error) {
	var b strings.Builder
	for rest := folder; rest != ""; {
		before, after, found := strings.Cut(rest, "%")
		b.WriteString(before)
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(after, "%"):
			b.WriteByte('%')
		case strings.HasPrefix(after, "n") && !isName(node):
			return "", fmt.Errorf("%w %q: the name of this node, %q, cannot be part of it", ErrFolder, folder, node)
		case strings.HasPrefix(after, "n"):
			b.WriteString(node)
		default:
			return "", fmt.Errorf("%w %q: after %%, n for the node's name or another %% is known", ErrFolder, folder)
		}
		rest = after[1:]
	}
	if path := b.String(); filepath.IsAbs(path) && !strings.Contains(path, "\x00") {
		return filepath.Clean(path), nil
	}
	return "", fmt.Errorf("%w %q: a path from / on is wanted, as nodes have working folders of their own", ErrFolder, folder)
}

// Kind is Kind.
func (l Local) Kind() string { return Kind }

// Shared is false.
func (l Local) Shared() bool { return false }

// isName reports whether a node's name can be part of a path and leads nowhere.
func isName(node string) bool {
	return node != "" && node != "." && node != ".." && !strings.ContainsAny(node, "/\x00")
}

// ErrFolder says that a folder cannot be one for local images.
var ErrFolder = errors.New("local folder")

// OpenLocal opens the folder of this node. It makes nothing yet. It refuses a folder in which others could put
// something else into the place of an image, and one that others could exchange, on any level of its path. Errors: ErrFolder.
func OpenLocal(folder string) (Local, error) {
	if err := owned.Settled(folder); err != nil {
		return Local{}, fmt.Errorf("%w %s: %w: name a folder of your own, in one of your own or of root", ErrFolder, folder, err)
	}
	st, err := os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Local{}, fmt.Errorf("%w: %w", ErrFolder, err)
	case !st.IsDir():
		return Local{}, fmt.Errorf("%w %s: it is no folder", ErrFolder, folder)
	}
	return Local{store.OpenDir(folder)}, nil
}

// Offer is a folder as a node offers it to others. It is opened with each call, and not before.
type Offer string

var _ remote.Served = Offer("")

// Open is Local's.
func (o Offer) Open(ctx context.Context, set, piece string) (store.Reader, error) {
	l, err := OpenLocal(string(o))
	if err != nil {
		return nil, err
	}
	return l.Open(ctx, set, piece)
}

// Stat is Local's.
func (o Offer) Stat(ctx context.Context, set, piece string) (store.Info, error) {
	l, err := OpenLocal(string(o))
	if err != nil {
		return store.Info{}, err
	}
	return l.Stat(ctx, set, piece)
}

// List is Local's.
func (o Offer) List(ctx context.Context, set string) ([]store.Info, error) {
	l, err := OpenLocal(string(o))
	if err != nil {
		return nil, err
	}
	return l.List(ctx, set)
}

// Sets is Local's.
func (o Offer) Sets(ctx context.Context, prefix string) ([]string, error) {
	l, err := OpenLocal(string(o))
	if err != nil {
		return nil, err
	}
	return l.Sets(ctx, prefix)
}

// Remove is Local's.
func (o Offer) Remove(ctx context.Context, set string) error {
	l, err := OpenLocal(string(o))
	if err != nil {
		return err
	}
	return l.Remove(ctx, set)
}

// Check is Local's.
func (o Offer) Check(ctx context.Context, set, piece string, whole bool) (int64, string, image.Meta, error) {
	l, err := OpenLocal(string(o))
	if err != nil {
		return 0, "", image.Meta{}, err
	}
	return l.Check(ctx, set, piece, whole)
}

// Commit makes the names durable in the set's folder and in those above it, which Begin may have made.
func (l Local) Commit(ctx context.Context, set string) error {
	if err := l.Dir.Commit(ctx, set); err != nil {
		return err
	}
	for dir := filepath.Dir(set); ; dir = filepath.Dir(dir) {
		if err := store.SyncFolder(filepath.Join(l.Root(), dir)); err != nil || dir == "." {
			return err
		}
	}
}

// Remove removes a set, and the folders above it that are empty then.
func (l Local) Remove(ctx context.Context, set string) error {
	if err := l.Dir.Remove(ctx, set); err != nil {
		return err
	}
	for dir := filepath.Dir(set); dir != "."; dir = filepath.Dir(dir) {
		if os.Remove(filepath.Join(l.Root(), dir)) != nil {
			return nil // something is in it
		}
	}
	return nil
}

// Check checks an image.
func (l Local) Check(ctx context.Context, set, piece string, whole bool) (int64, string, image.Meta, error) {
	return remote.Check(ctx, l.Dir, set, piece, whole)
}
