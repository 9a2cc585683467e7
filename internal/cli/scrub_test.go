package cli

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// What this machine does not see is not made again here: an image of another node.
func TestElsewhere(t *testing.T) {
	s := &snapshot.Snapshot{Schema: &snapshot.Schema{Images: []snapshot.Image{{Node: wire.Hostname()}, {Rank: 1, Node: "far"}}}}
	away := fmt.Errorf("not here; %w: far", store.ErrUnreachable)
	for _, c := range []struct {
		rank int
		err  error
		want bool
	}{
		{0, away, false}, {1, away, true}, {1, image.ErrCorrupt, false}, {1, fs.ErrNotExist, false},
	} {
		if got := elsewhere(s, c.rank, c.err); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Of a job with several levels the newest snapshot may have been in memory alone, and older ones on nodes: these are looked
// at when the nodes are up.
func TestOnNodes(t *testing.T) {
	for at, want := range map[snapshot.Copy]bool{
		{}: false, {Store: "mem"}: false, {Store: "s3"}: false, {Store: "node", Folder: "/x"}: true, {Store: "node+sealed", Folder: "/key:/x"}: true,
	} {
		s := &snapshot.Snapshot{Schema: &snapshot.Schema{Store: "mem", More: []snapshot.Copy{at}}}
		if got := onNodes(s); got != want {
			t.Errorf("%+v: %v", at, got)
		}
	}
}
