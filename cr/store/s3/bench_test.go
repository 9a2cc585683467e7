package s3

import (
	"context"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/testing/s3test"
	"github.com/gorun-mpi/gorun/internal/testing/storetest"
)

// cpu is what this process has used, in seconds. The server is another one.
func cpu(b *testing.B) float64 {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// BenchmarkVersity moves a piece of 256 MB to and from versitygw.
func BenchmarkVersity(b *testing.B) {
	getenv, socket := s3test.VersitySocket(b)
	s := open(b, nil, func(c *Config) {
		c.Getenv, c.Part = getenv, defaultPart
		c.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}
	})
	ctx := b.Context()
	if err := s.Begin(ctx, "s"); err != nil {
		b.Fatal(err)
	}
	const size, step = 256 << 20, 1 << 20
	p := storetest.Data(step, 1)
	each := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			before := cpu(b)
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*size/1e9/(cpu(b)-before), "GB/CPU-s")
		})
	}
	each("upload", func() error {
		w, err := s.Create(ctx, "s", "p", store.Options{})
		if err != nil {
			return err
		}
		for off := int64(0); off < size; off += step {
			if _, err := w.WriteAt(p, off); err != nil {
				return err
			}
		}
		return w.Commit(size)
	})
	each("download", func() error {
		r, err := s.Open(ctx, "s", "p")
		if err != nil {
			return err
		}
		defer r.Close()
		for off := int64(0); off < size; off += step {
			if _, err := r.ReadAt(p, off); err != nil {
				return err
			}
		}
		return nil
	})
}
