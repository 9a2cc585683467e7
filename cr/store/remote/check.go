package remote

import (
	"context"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
)

// Check opens an image of a store and returns what tells whose it is. With whole, all of it is read and checked.
func Check(ctx context.Context, st store.Reading, set, piece string, whole bool) (size int64, digest string, m image.Meta, err error) {
	r, err := image.Piece{Context: ctx, Store: st, Set: set, Name: piece}.Open()
	if err != nil {
		return 0, "", m, err
	}
	defer r.Close()
	if whole {
		err = r.Verify()
	}
	return r.Size(), r.Digest(), r.Meta(), err
}
