package shm

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Free chunks are in the order in which they became free; none is lost or given twice.
func TestChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pool
		p.init(nil, 0, geometry{small: rapid.IntRange(1, maxSmall).Draw(t, "small"), large: rapid.IntRange(1, maxLarge).Draw(t, "large")})
		var free [2][]uint16
		for i := int(p.free[0].n) + int(p.free[1].n) - 1; i >= 0; i-- {
			class := 0
			if i >= int(p.cut) {
				class = 1
			}
			free[class] = append(free[class], uint16(i))
		}
		var out []uint16
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				class, n := 0, rapid.SampledFrom([]int{1, smallChunk, smallChunk + 1, largeChunk}).Draw(t, "bytes")
				if n > smallChunk || len(free[0]) == 0 {
					class = 1
				}
				get, at := p.get, len(free[class])-1
				if rapid.Bool().Draw(t, "old") {
					get, at = p.getOld, min(at, 0)
				}
				id, ok := get(n)
				if ok != (at >= 0) || ok && id != free[class][at] {
					t.Fatalf("%d bytes: %d %v, %v are free", n, id, ok, free[class])
				}
				if ok {
					free[class] = slices.Delete(free[class], at, at+1)
					out = append(out, id)
				}
			},
			"put": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("none is out")
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				id := out[i]
				out = slices.Delete(out, i, i+1)
				p.put(id)
				class := 0
				if id >= p.cut {
					class = 1
				}
				free[class] = append(free[class], id)
			},
		})
		if int(p.free[0].n) != len(free[0]) || int(p.free[1].n) != len(free[1]) {
			t.Fatalf("%d and %d are free, not %d and %d", p.free[0].n, p.free[1].n, len(free[0]), len(free[1]))
		}
	})
}
