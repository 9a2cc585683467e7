package nodes

import "testing"

// BenchmarkCost compares what checkpoints in the memory of neighbours take from two ranks, which have the CPUs for themselves, by what the job tells of
// itself (gorun status, which -ckpt-every auto goes by) with what its steps say. Figures are means of eight.
//
//	go test ./internal/e2e/nodes -run '^$' -bench Cost -benchtime 1x -timeout 1h -v
func BenchmarkCost(b *testing.B) {
	c := newCluster(b, 2)
	for b.Loop() {
		w := c.pair()
		for range 2 { // slots are fresh
			w.costs()
		}
		const rounds = 8
		lost := 0.0
		for range rounds {
			lost += w.costs()
		}
		told := w.status().Interval
		w.gorun("suspend")
		w.over()
		b.Log(told)
		b.ReportMetric(lost/rounds, "steps-ms")
		b.ReportMetric(ms(told.Cost), "told-ms")
		b.ReportMetric(ms(told.Pause), "stand-ms")
	}
	b.ReportMetric(0, "ns/op")
}
