//go:build linux

package restore

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// BenchmarkRestore restores a program that has touched some megabytes, with its
// image in the page cache, and reports how long the restore took and when the
// program had answered.
func BenchmarkRestore(b *testing.B) {
	for _, codec := range []image.Codec{image.None, image.Snappy, image.Zstd} {
		for _, mb := range []string{"0", "16", "256", "1024"} {
			if codec != image.None && mb != "256" {
				continue
			}
			b.Run(fmt.Sprintf("%sMB/%s", mb, codec), func(b *testing.B) { benchRestore(b, mb, codec) })
		}
	}
}

func benchRestore(b *testing.B, mb string, codec image.Codec) {
	tr := newTrip(b, nativetest.Build(b, "victim", "default"))
	tr.codec = codec
	tr.start(mb)
	tr.next("ready")
	img := tr.image(whole.CaptureOptions{})
	raw := rawBytes(b, img)
	var took, answered, cpu time.Duration
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		tr.kill()
		b.StartTimer()
		since, used := time.Now(), cpuTime()
		tr.restore(img)
		took += time.Since(since)
		cpu += cpuTime() - used
		fmt.Fprintln(tr.stdin, "1")
		tr.next("1 ")
		answered += time.Since(since)
	}
	per := took.Seconds() / float64(b.N)
	b.ReportMetric(1e3*per, "ms/restore")
	b.ReportMetric(1e3*cpu.Seconds()/float64(b.N), "cpu-ms/restore")
	b.ReportMetric(1e3*answered.Seconds()/float64(b.N), "ms/answer")
	b.ReportMetric(float64(raw)/1e9/per, "GB/s")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is the processor time that this process has used: on a busy machine
// it tells more than the clock.
func cpuTime() time.Duration {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rawBytes is how much memory an image holds; afterwards it is in the page cache.
func rawBytes(b *testing.B, path string) uint64 {
	r, err := image.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	if err := r.Verify(); err != nil {
		b.Fatal(err)
	}
	n := uint64(0)
	for _, s := range r.Sections() {
		n += s.Size
	}
	return n
}

// BenchmarkRestoreMany restores 64 processes of 16 MB at once, as an agent does.
func BenchmarkRestoreMany(b *testing.B) {
	const ranks = 64
	for _, n := range []int{1, 2, 4, 8, 16} {
		b.Run(fmt.Sprintf("threads=%d", n), func(b *testing.B) {
			tr := newTrip(b, nativetest.Build(b, "victim", "default"))
			tr.start("16")
			tr.next("ready")
			img := tr.image(whole.CaptureOptions{})
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer null.Close()
			fd := int(null.Fd())
			in, more, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			defer in.Close()
			defer more.Close()
			rawBytes(b, img)
			b.ResetTimer()
			var took time.Duration
			for range b.N {
				threads := trace.NewThreads(n)
				since := time.Now()
				var all sync.WaitGroup
				pids := make([]int, ranks)
				for i := range ranks {
					all.Go(func() {
						r, err := Start(threads, whole.RestoreOptions{Image: image.Path(img), Program: tr.program, Stdin: int(in.Fd()), Stdout: fd, Stderr: fd, OOB: fd})
						if err != nil {
							b.Error(err)
							return
						}
						pids[i] = r.PID
					})
				}
				all.Wait()
				took += time.Since(since)
				b.StopTimer()
				threads.Close() // and with it the processes
				for _, pid := range pids {
					if pid != 0 {
						trace.Reap(pid, tripLimit)
					}
				}
				b.StartTimer()
			}
			b.ReportMetric(1e3*took.Seconds()/float64(b.N), "ms/64")
			b.ReportMetric(0, "ns/op")
		})
	}
}
