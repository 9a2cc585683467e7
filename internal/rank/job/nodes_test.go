package job

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Nodes survive writing and reading.
func TestNodesAsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 50).Draw(t, "nodes")
		if got, err := parseNodes(FormatNodes(nodes), len(nodes)); err != nil || !slices.Equal(got, nodes) {
			t.Fatalf("%v became %v, %v", nodes, got, err)
		}
	})
}

// What an image notes may be anything, but no more ranks than there are come of it.
func FuzzNodes(f *testing.F) {
	f.Add("0x4 1x4", 8)
	f.Add("0x4", 5)
	f.Add("-1x1 x", 2)
	f.Fuzz(func(t *testing.T, s string, ranks int) {
		ranks &= 1<<10 - 1
		if nodes, err := parseNodes(s, ranks); err == nil && len(nodes) != ranks {
			t.Fatalf("%d ranks of %d", len(nodes), ranks)
		}
	})
}
