package capture

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// BenchmarkGrowth reports how much more memory than the program alone the
// program and its copy need together, at most, while the image of 1 GB is written
// behind a program that goes on writing.
func BenchmarkGrowth(b *testing.B) {
	for _, rate := range []int{0, 100, 400, 1600} {
		b.Run(fmt.Sprintf("%dMBps", rate), func(b *testing.B) { benchGrowth(b, rate) })
	}
}

func benchGrowth(b *testing.B, rate int) {
	threads := trace.NewThreads(1)
	defer threads.Close()
	p := nativetest.StartWriter(b)
	g, err := attachTo(New(threads), p.PID, 0, -1)
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	p.Ask("noise", 1<<10)
	if rate > 0 {
		p.Ask("busy", rate)
	}
	var growth, private, took float64
	path := filepath.Join(b.TempDir(), "image")
	for range b.N {
		alone := memoryOf(b, p.PID, "Pss:")
		start := time.Now()
		c, err := g.capture(whole.CaptureOptions{})
		if err != nil {
			b.Fatal(err)
		}
		written := make(chan error, 1)
		go func() {
			_, err := c.Write(image.Path(path), image.LocalMeta(), image.Options{})
			written <- err
		}()
		var most, dirty uint64
		for done := false; !done; {
			select {
			case err := <-written:
				if err != nil {
					b.Fatal(err)
				}
				done = true
			case <-time.After(20 * time.Millisecond):
				most = max(most, memoryOf(b, p.PID, "Pss:")+memoryOf(b, c.PID(), "Pss:"))
				dirty = max(dirty, memoryOf(b, c.PID(), "Private_Dirty:"))
			}
		}
		took += time.Since(start).Seconds()
		c.Release()
		if most > alone {
			growth += float64(most-alone) / 1e6
		}
		private += float64(dirty) / 1e6
	}
	b.ReportMetric(growth/float64(b.N), "MB-growth")
	b.ReportMetric(private/float64(b.N), "MB-private-copy")
	b.ReportMetric(took*1e3/float64(b.N), "ms-written")
	b.ReportMetric(0, "ns/op")
}

// memoryOf sums a line of smaps_rollup.
func memoryOf(b *testing.B, pid int, key string) uint64 {
	text, err := proc.Read(pid, "smaps_rollup")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			var kilobytes uint64
			if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
				b.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	b.Fatalf("no %s in smaps_rollup", key)
	return 0
}
