package flush

import (
	"context"
	"fmt"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// Layer is an image in a set of a store.
type Layer struct {
	Set    string `json:"set"`
	Digest string `json:"digest"`
}

// Merged is an image that was merged from several.
type Merged struct {
	Piece
	Raw uint64 `json:"raw"` // bytes of memory
}

// One is an image that is to be merged from several, each of which builds on the next.
type One struct {
	Name  string // of all of them
	Seq   int    // the snapshot that it is for
	Base  int    // the one that it builds on, 0: none
	Codec string
	From  []Layer
}

// Merge makes one image of several and puts it into the target's set, which has begun. Like a copy it is paced, and read again and checked.
func Merge(ctx context.Context, by whole.Merger, from store.Reading, to Set, im One, pace *Pace, opt Options) (Merged, error) {
	codec, err := image.ParseCodec(im.Codec)
	if err != nil {
		return Merged{}, err
	}
	var layers []image.Source
	for _, l := range im.From {
		layers = append(layers, checked{image.Piece{Context: ctx, Store: from, Set: l.Set, Name: im.Name}, l.Digest})
	}
	before := uint64(0)
	sum, err := by.Merge(image.NewPiece{Context: ctx, Store: to.Store, Set: to.Name, Name: im.Name}, im.Seq, im.Base, layers, image.Options{
		Codec: codec, NoDirect: true, Cancel: ctx.Done(), Workers: 1,
		Progress: func(n uint64) {
			if opt.Progress != nil {
				opt.Progress(int64(n - before))
			}
			pace.Wait(ctx, int64(n-before), opt.Rate) // Cancel reports the context's end
			before = n
		},
	})
	if err != nil {
		return Merged{}, err
	}
	m := Merged{Piece{im.Name, sum.Size, sum.Digest}, sum.Raw}
	if err := Check(ctx, to.Store, to.Name, m.Piece); err != nil {
		return Merged{}, fmt.Errorf("what was merged is not there: %w", err)
	}
	return m, nil
}

// checked is an image that must have a digest.
type checked struct {
	image.Piece
	digest string
}

func (c checked) Open() (*image.Reader, error) {
	r, err := c.Piece.Open()
	if err == nil && r.Digest() != c.digest {
		r.Close()
		return nil, fmt.Errorf("%s: %w: digest %s, the schema says %s", c.Piece, image.ErrCorrupt, r.Digest(), c.digest)
	}
	return r, err
}
