//go:build amd64

package capture

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// BenchmarkCapture reports, for programs that have touched some megabytes, for
// how long they stood still (median and worst) and how fast their image is
// written behind them.
func BenchmarkCapture(b *testing.B) {
	for _, mb := range []string{"16", "256", "1024"} {
		for _, load := range []string{"idle", "spin", "churn", "threads"} {
			b.Run(fmt.Sprintf("%sMB/%s", mb, load), func(b *testing.B) {
				what := []string{mb}
				if load != "idle" {
					what = append(what, load)
				}
				benchCapture(b, what, whole.CaptureOptions{})
			})
		}
	}
}

// BenchmarkMappings does so for a program of ten thousand mappings, whose changes are
// followed or not.
func BenchmarkMappings(b *testing.B) {
	b.Run("full", func(b *testing.B) { benchCapture(b, []string{"maps"}, whole.CaptureOptions{}) })
	b.Run("followed", func(b *testing.B) { benchCapture(b, []string{"maps"}, whole.CaptureOptions{Track: true}) })
}

func benchCapture(b *testing.B, what []string, opt whole.CaptureOptions) {
	threads := trace.NewThreads(2)
	defer threads.Close()
	v := newVictim(b, New(threads), what...)
	defer v.End()
	path := filepath.Join(b.TempDir(), "image")
	var pauses []time.Duration
	var returned, wrote time.Duration
	var size int64
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		c, err := v.target.capture(opt)
		if err != nil {
			b.Fatal(err)
		}
		pauses = append(pauses, c.Pause())
		returned += time.Since(start)
		start = time.Now()
		sum, err := c.Write(image.Path(path), image.LocalMeta(), image.Options{})
		if err != nil {
			b.Fatal(err)
		}
		wrote += time.Since(start)
		size = sum.Size
		c.Release()
	}
	slices.Sort(pauses)
	n := float64(b.N)
	b.ReportMetric(float64(pauses[len(pauses)/2].Microseconds())/1e3, "ms-pause")
	b.ReportMetric(float64(pauses[len(pauses)-1].Microseconds())/1e3, "ms-worst")
	b.ReportMetric(float64(returned.Microseconds())/1e3/n, "ms-capture")
	b.ReportMetric(float64(size)/1e6*n/wrote.Seconds(), "MB/s-write")
	b.ReportMetric(float64(size)/1e6, "MB-image")
	b.ReportMetric(0, "ns/op")
}
