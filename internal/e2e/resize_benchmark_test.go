package e2e

import (
	"path/filepath"
	"testing"
)

// BenchmarkResize restarts 128 MB of 4 ranks, with as many and with others, to their end: the program has no step left to do. The
// ratio is to as many.
//
//	go test ./internal/e2e -run '^$' -bench Resize
func BenchmarkResize(b *testing.B) {
	h := newHouse(b)
	rows := func(steps string) []string {
		return []string{filepath.Join(bin, "rows"), "-n", "4096", "-steps", steps}
	}
	schema := h.stopped("-cr=self", append([]string{"-np", "4"}, rows("1000000")...))
	var same float64
	for _, np := range []string{"4", "1", "3", "8"} {
		b.Run("4to"+np, func(b *testing.B) {
			for b.Loop() {
				h.must(append([]string{"restart", "-np", np, "-cr=false", schema, "--"}, rows("1")...)...)
			}
			took := b.Elapsed().Seconds() / float64(b.N)
			if np == "4" {
				same = took
			}
			if same > 0 {
				b.ReportMetric(took/same, "ratio")
			}
		})
	}
	h.clean()
}
