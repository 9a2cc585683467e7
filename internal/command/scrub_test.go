package command

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
)

// What this machine does not see is not made again here: an image of another node, or in the memory of a job.
func TestElsewhere(t *testing.T) {
	s := &snapshot.Snapshot{Schema: &snapshot.Schema{Images: []snapshot.Image{{Node: wire.Hostname()}, {Rank: 1, Node: "far"}}}}
	away := fmt.Errorf("not here; %w: far", store.ErrUnreachable)
	for _, c := range []struct {
		kind string
		rank int
		err  error
		want bool
	}{
		{"node", 0, away, false}, {"node", 1, away, true}, {"node", 1, image.ErrCorrupt, false}, {"dir", 1, fs.ErrNotExist, false}, {"mem", 0, errors.New("over"), true},
	} {
		if got := elsewhere(s, snapshot.Copy{Store: c.kind}, c.rank, c.err); got != c.want {
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
