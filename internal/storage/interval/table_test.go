package interval

import (
	"math"
	"testing"
	"time"
)

// The table was computed by another program, for 10,000 failures a line, before this one was written. Its small job has
// 4 ranks of 256 MB on one machine. Its large one has 64 GB a node, links of 25 Gbit/s and a share of .25 GB/s of a parallel file
// system. Times are in seconds: commit, cost, restart.

func level(name string, survives Scope, d, c, r float64) Level {
	return Level{Name: name, Survives: survives, Commit: seconds(d), Cost: seconds(c), Restart: seconds(r)}
}

var (
	smallMem  = level("mem", Node, .45, .10, .35)
	smallDisk = level("disk", All, 1, .4, .4)
	waitDisk  = level("disk", All, 1.047, 1.047, .4)

	mem     = level("mem", Node, 32, 2.5, 28)
	rs      = level("rs", Nodes, 45, 5, 60)
	pfs     = level("pfs", All, 256, 8, 280)
	s3      = level("s3", All, 512, 8, 560)
	waitPFS = level("pfs", All, 258, 258, 280)

	memIncr = level("mem", Node, 3, .5, 28)
	rsIncr  = level("rs", Nodes, 5, .7, 60)
	pfsIncr = level("pfs", All, 43, 2, 280)
)

var table = []struct {
	name   string
	pause  float64
	levels []Level
	every  time.Duration // 0: the best
	want   [4]float64    // at a failure a day, in 6 h, 1 h and 15 min
}{
	{"small, disk, ranks wait", 0, []Level{waitDisk}, 0, [4]float64{.9950, .9900, .9749, .9476}},
	{"small, disk behind, every 10 min", .047, []Level{smallDisk}, 10 * time.Minute, [4]float64{.9958, .9853, .9166, .6995}},
	{"small, disk behind", .047, []Level{smallDisk}, 0, [4]float64{.9967, .9934, .9831, .9641}},
	{"small, mem and disk", .047, []Level{smallMem, smallDisk}, 0, [4]float64{.9970, .9939, .9846, .9677}},
	{"pfs, ranks wait", 0, []Level{waitPFS}, 0, [4]float64{.9191, .8329, .5745, .2296}},
	{"pfs behind", 1.9, []Level{pfs}, 0, [4]float64{.9788, .9460, .7985, .4581}},
	{"mem and pfs", 1.9, []Level{mem, pfs}, 0, [4]float64{.9831, .9627, .8853, .7002}},
	{"mem, rs and pfs", 1.9, []Level{mem, rs, pfs}, 0, [4]float64{.9826, .9627, .8929, .7391}},
	{"mem and s3", 1.9, []Level{mem, s3}, 0, [4]float64{.9818, .9578, .8559, .5452}},
	{"pfs with increments", 1.9, []Level{pfsIncr}, 0, [4]float64{.9869, .9664, .8701, .6276}},
	{"mem, rs and pfs with increments", 1.9, []Level{memIncr, rsIncr, pfsIncr}, 0, [4]float64{.9895, .9777, .9360, .8417}},
}

func TestTable(t *testing.T) {
	for _, line := range table {
		for i, mtbf := range []time.Duration{24 * time.Hour, 6 * time.Hour, time.Hour, 15 * time.Minute} {
			f := Failures{MTBF: mtbf, Share: Usual, Detect: 3 * time.Second}
			p, err := Best(Job{Pause: seconds(line.pause), Levels: line.levels, Failures: f})
			if err != nil {
				t.Fatal(err)
			}
			if line.every > 0 {
				p.Steps[0].Every = line.every
			}
			got := Simulate(p, f, 10_000, 1).Efficiency
			if math.Abs(got-line.want[i]) > .01 {
				t.Errorf("%s, a failure in %v: efficiency %.4f, the table has %.4f", line.name, mtbf, got, line.want[i])
			}
		}
	}
}
