package restore

import (
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/dirty"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestGuards: guard pages hold nothing, and are guarded again after a restart, be the
// image full or incremental.
func TestGuards(t *testing.T) {
	tr := newTrip(t, nativetest.Build(t, "victim", "default"))
	tr.start("guard", "4")
	tr.next("ready")
	if strings.HasPrefix(tr.seen[0], "no guard pages") {
		t.Skip(tr.seen[0])
	}
	tr.works(1)
	var base string
	for i, o := range []whole.CaptureOptions{{}, {NoFork: true}, {Track: true, Seq: 3}} {
		img := tr.image(o)
		if i == 2 {
			base = img
			tr.target.Committed(3)
			tr.works(2)
			img = tr.image(whole.CaptureOptions{Track: true, Base: 3, Seq: 4})
			if dirty.Supported() == nil && stateOf(t, img).Base != 3 {
				t.Fatal("the image is full")
			}
		}
		tr.works(2)
		if g := stateOf(t, img).Guards; len(g) != 2 || g[0].End-g[0].Start != 2*pages.Size {
			t.Fatalf("guard pages %x", g)
		}
		tr.kill()
		tr.restore(img, func(o *whole.RestoreOptions) { o.Base = func(int) image.Source { return image.Path(base) } })
		tr.works(3)
	}
}
