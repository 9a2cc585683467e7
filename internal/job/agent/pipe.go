package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/imagepipe"
)

// A restart with another number of ranks: none has an image of its own. Only the program knows
// which parts of which images it needs, so each rank asks for images one by one and reads its
// parts. Nothing else is fetched.

// shelve offers a rank the images of all ranks of the snapshot.
func (a *agent) shelve(r *rankProc) error {
	o, err := imagepipe.Shelf(a.onShelf)
	if err != nil {
		return err
	}
	r.outlets.add(o)
	r.image = o.Path
	return nil
}

// onShelf finds a copy of the image of a rank of the snapshot: a file if it is one here, else a
// reader of its store, through a node that has it.
func (a *agent) onShelf(ctx context.Context, rank, copy int) (path string, r store.Reader, err error) {
	if rank < 0 || rank >= len(a.order.Shelf) {
		return "", nil, fmt.Errorf("the snapshot has %d ranks, and no rank %d", len(a.order.Shelf), rank)
	}
	im := &a.order.Shelf[rank]
	copies := append([]wire.Image{*im}, im.Or...)
	if copy >= len(copies) {
		return "", nil, io.EOF
	}
	c := &copies[copy]
	if c.Store == "" {
		return string(c.Path), nil, nil
	}
	st, err := a.store(c.Store)
	if err != nil {
		return "", nil, err
	}
	if at, ok := st.(store.Pather); ok {
		if path, err = at.Path(c.Set, c.Piece); err == nil {
			if _, err = os.Stat(path); err == nil {
				return path, nil, nil
			}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", nil, err
		}
	}
	r, err = st.Open(ctx, c.Set, c.Piece)
	if err != nil && c.Node != "" {
		err = fmt.Errorf("%w (node %s has written it)", err, c.Node)
	}
	return "", r, err
}
