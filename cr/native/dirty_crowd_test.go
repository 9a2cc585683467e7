package native

import (
	"slices"
	"testing"
)

// TestCrowd: small regions that touch and were there before are asked for together,
// others alone.
func TestCrowd(t *testing.T) {
	const k = 1 << 10
	large := extent{crowdSize, 4 * crowdSize}
	for _, c := range []struct {
		name            string
		regions, before []extent
		want            []int
	}{
		{name: "known", regions: []extent{{0, 4 * k}, {4 * k, 8 * k}, {8 * k, 12 * k}}, before: []extent{{0, 4 * k}, {4 * k, 8 * k}, {8 * k, 12 * k}}, want: []int{3}},
		{name: "new", regions: []extent{{0, 4 * k}, {4 * k, 8 * k}}, want: []int{1, 1}},
		{name: "one is new", regions: []extent{{0, 4 * k}, {4 * k, 8 * k}, {8 * k, 12 * k}}, before: []extent{{0, 4 * k}, {4 * k, 6 * k}, {8 * k, 12 * k}}, want: []int{1, 1, 1}},
		{name: "a gap", regions: []extent{{0, 4 * k}, {8 * k, 12 * k}}, before: []extent{{0, 4 * k}, {8 * k, 12 * k}}, want: []int{1, 1}},
		{name: "gone", regions: []extent{{8 * k, 12 * k}, {12 * k, 16 * k}}, before: []extent{{0, 4 * k}, {8 * k, 12 * k}, {12 * k, 16 * k}}, want: []int{2}},
		{name: "large", regions: []extent{{0, crowdSize}, large, {large.End, large.End + k}}, before: []extent{{0, crowdSize}, large, {large.End, large.End + k}}, want: []int{1, 1, 1}},
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
