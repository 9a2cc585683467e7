package native

import (
	"testing"
)

func TestGuardsValid(t *testing.T) {
	for _, g := range [][]extent{{{0x10000, 0x10000}}, {{0x10001, 0x11000}}, make([]extent, maxExtents+1)} {
		if err := validExtents(g); err == nil {
			t.Errorf("%d ranges %x are accepted", len(g), g[:1])
		}
	}
}
