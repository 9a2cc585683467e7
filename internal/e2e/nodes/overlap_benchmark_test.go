package nodes

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/nodelab"
)

// BenchmarkOverlap measures, between two nodes with a CPU each and a link that delays by a millisecond and is limited to 200 Mbit/s, which share
// of an Iallreduce and of a halo's exchange is hidden behind a computation of equal length.
//
//	go test ./internal/e2e/nodes -run '^$' -bench Overlap -benchtime 1x
//
// Figures are in per cent.
func BenchmarkOverlap(b *testing.B) {
	c := newCluster(b, 2, nodelab.Pinned())
	buildOne(b, c.Shared(), "collectives", "benchmarks/collectives")
	c.Delay("n1", time.Millisecond)
	c.Rate("n1", "200mbit")
	for b.Loop() {
		out := c.Exec("n1", c.file("gorun"), "-hosts", "n1:1,n2:1", "-np", "2", c.file("collectives"), "-overlap", "-csv",
			"-sizes", "8,8192,131072,1048576", "-time", "2s")
		b.Log("\n" + out)
		for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
			cells := strings.Split(line, ",")
			hidden, err := strconv.ParseFloat(cells[len(cells)-1], 64)
			if err != nil {
				b.Fatal(line, err)
			}
			b.ReportMetric(100*hidden, cells[0]+"-"+cells[1]+"B-%")
		}
	}
}
