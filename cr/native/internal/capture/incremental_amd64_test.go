package capture

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/dirty"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// BenchmarkIncremental reports what images of a program with 1 GB cost, of which
// a part is written between them: for how long it stands still (median), and
// how large they are.
func BenchmarkIncremental(b *testing.B) {
	for _, x := range []struct {
		name  string
		track bool
		base  bool
		touch int
	}{
		{"full", false, false, 20}, {"followed", true, false, 20}, {"0%", true, true, 0}, {"5%", true, true, 20}, {"100%", true, true, 1},
	} {
		b.Run(x.name, func(b *testing.B) { benchIncremental(b, x.track, x.base, x.touch) })
	}
}

func benchIncremental(b *testing.B, track, chained bool, touch int) {
	if err := dirty.Supported(); err != nil {
		b.Skip(err)
	}
	threads := trace.NewThreads(1)
	defer threads.Close()
	p := nativetest.StartWriter(b)
	g, err := attachTo(New(threads), p.PID, 0, -1)
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	p.Ask("noise", 1<<10)
	base := 0
	dir := b.TempDir()
	var pauses []time.Duration
	var size float64
	for seq := 1; seq <= b.N+1; seq++ {
		if touch > 0 {
			p.Ask("touch", touch)
		}
		c, err := g.capture(whole.CaptureOptions{Base: base, Seq: seq, Track: track})
		if err != nil {
			b.Fatal(err)
		}
		m := image.LocalMeta()
		m.Seq = seq
		sum, err := c.Write(image.Path(filepath.Join(dir, "image")), m, image.Options{})
		if err != nil {
			b.Fatal(err)
		}
		c.Release()
		if chained {
			g.Committed(seq)
			base = seq
		}
		if seq > 1 { // the first is full, whatever comes after it
			pauses = append(pauses, c.Pause())
			size += float64(sum.Size)
		}
	}
	slices.Sort(pauses)
	b.ReportMetric(float64(pauses[0].Microseconds())/1e3, "ms-least")
	b.ReportMetric(float64(pauses[len(pauses)/2].Microseconds())/1e3, "ms-pause")
	b.ReportMetric(size/1e6/float64(b.N), "MB-image")
	b.ReportMetric(0, "ns/op")
}
