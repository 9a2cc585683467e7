package state

import (
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
)

func TestGuardsValid(t *testing.T) {
	for _, g := range [][]pages.Extent{{{Start: 0x10000, End: 0x10000}}, {{Start: 0x10001, End: 0x11000}}, make([]pages.Extent, maxExtents+1)} {
		if err := validExtents(g); err == nil {
			t.Errorf("%d ranges %x are accepted", len(g), g[:1])
		}
	}
}
