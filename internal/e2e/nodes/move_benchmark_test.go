package nodes

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkMove measures, in turns, for how long all ranks of 8 stand while one of them moves to another node, and how
// long it takes to checkpoint and stop the whole job and to have it up again by gorun restart.
//
//	go test ./internal/e2e/nodes -run '^$' -bench Move -benchtime 5x -timeout 1h
//
// Figures are medians.
func BenchmarkMove(b *testing.B) {
	for _, memory := range []string{"1", "64"} {
		b.Run(memory+"MB", func(b *testing.B) {
			c := newCluster(b, 4)
			const hosts = "n1:3,n2:3,n3:3,n4:3"
			end, snapshots := c.fresh("end"), c.fresh("snapshots")
			j := c.start("-v", "-hosts", hosts, "-spares", "1", "-np", "8", "-cr=native", "-ckpt-dir", snapshots, c.file("march"), "-memory", memory, "-end", end)
			var stood, took, whole []float64
			for b.Loop() {
				id := j.id()
				begin := time.Now()
				out := j.move("-ranks", "4", "-to", "n4")
				took = append(took, float64(time.Since(begin).Milliseconds()))
				d, err := time.ParseDuration(regexp.MustCompile(`for (\S+)\n?$`).FindStringSubmatch(out)[1])
				if err != nil {
					b.Fatal(err)
				}
				stood = append(stood, float64(d.Milliseconds()))

				begin = time.Now()
				schema := strings.TrimSpace(c.Exec("n1", c.file("gorun"), "checkpoint", "-stop", id))
				j.end()
				j = c.start("restart", "-v", "-hosts", hosts, "-spares", "1", schema)
				j.await("ranks are up after")
				whole = append(whole, float64(time.Since(begin).Milliseconds()))
			}
			if err := os.WriteFile(end, nil, 0o644); err != nil {
				b.Fatal(err)
			}
			j.well()
			for _, x := range []struct {
				name  string
				times []float64
			}{{"stand-ms", stood}, {"migrate-ms", took}, {"whole-ms", whole}} {
				slices.Sort(x.times)
				b.ReportMetric(x.times[len(x.times)/2], x.name)
			}
			b.ReportMetric(stood[len(stood)/2]/whole[len(whole)/2], "ratio")
		})
	}
}
