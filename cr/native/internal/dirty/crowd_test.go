package dirty

import (
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
)

// TestCrowd: small regions that touch and were there before are asked for together,
// others alone.
func TestCrowd(t *testing.T) {
	const k = 1 << 10
	large := pages.Extent{Start: crowdSize, End: 4 * crowdSize}
	for _, c := range []struct {
		name            string
		regions, before []pages.Extent
		want            []int
	}{
		{name: "known", regions: []pages.Extent{span(0, 4*k), span(4*k, 8*k), span(8*k, 12*k)}, before: []pages.Extent{span(0, 4*k), span(4*k, 8*k), span(8*k, 12*k)}, want: []int{3}},
		{name: "new", regions: []pages.Extent{span(0, 4*k), span(4*k, 8*k)}, want: []int{1, 1}},
		{name: "one is new", regions: []pages.Extent{span(0, 4*k), span(4*k, 8*k), span(8*k, 12*k)}, before: []pages.Extent{span(0, 4*k), span(4*k, 6*k), span(8*k, 12*k)}, want: []int{1, 1, 1}},
		{name: "a gap", regions: []pages.Extent{span(0, 4*k), span(8*k, 12*k)}, before: []pages.Extent{span(0, 4*k), span(8*k, 12*k)}, want: []int{1, 1}},
		{name: "gone", regions: []pages.Extent{span(8*k, 12*k), span(12*k, 16*k)}, before: []pages.Extent{span(0, 4*k), span(8*k, 12*k), span(12*k, 16*k)}, want: []int{2}},
		{name: "large", regions: []pages.Extent{span(0, crowdSize), large, span(large.End, large.End+k)}, before: []pages.Extent{span(0, crowdSize), large, span(large.End, large.End+k)}, want: []int{1, 1, 1}},
	} {
		var got []int
		for regions, before := c.regions, c.before; len(regions) > 0; {
			n := crowd(regions, &before)
			got, regions = append(got, n), regions[n:]
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func span(start, end uint64) pages.Extent { return pages.Extent{Start: start, End: end} }
