package holder

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// Copies and shards keep to the rate of their order: at a byte a second none comes to its end, and without a rate both do.
func TestRate(t *testing.T) {
	has, gets := mem.New(nil), mem.New(nil)
	defer has.Close()
	defer gets.Close()
	if err := has.Begin(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	w, err := has.Create(t.Context(), set, piece(0), store.Options{Size: 5000})
	if err != nil {
		t.Fatal(err)
	}
	img, err := image.NewWriter(w, piece(0), image.LocalMeta(), image.Options{Workers: 1, BlockSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	if err := img.Section("x", "data", "", make([]byte, 5000)); err != nil {
		t.Fatal(err)
	}
	sum, err := img.Commit()
	if err != nil {
		t.Fatal(err)
	}
	peer := node.Peer{Node: "a", Files: has}
	from := []wire.Source{{Node: "a"}}
	for _, o := range []wire.Copy{
		{Set: set, Piece: piece(0), Digest: sum.Digest},
		{Set: set, Parity: &wire.Parity{Shards: 1, Images: []wire.OneOfMany{{Piece: piece(0), Size: sum.Size, Digest: sum.Digest, From: from}}}},
	} {
		c := NewCopier(gets, "b")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		o.Rate = 1
		if err := c.Copy(ctx, &o, peer); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v at a byte a second: %v", o, err)
		}
		cancel()
		o.Rate = 0
		if err := c.Copy(t.Context(), &o, peer); err != nil {
			t.Errorf("%+v without a rate: %v", o, err)
		}
	}
}
