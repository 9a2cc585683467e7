package rendezvous

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// bulk pushes 64 MB at a time through a stream, in pieces of 1 MB.
func bulk(b *testing.B, to, from oob.Stream) {
	const piece, pieces = 1 << 20, 64
	p := make([]byte, piece)
	b.SetBytes(piece * pieces)
	go func() {
		for {
			if _, err := to.Write(p); err != nil {
				return // the benchmark is over
			}
		}
	}()
	q := make([]byte, piece)
	before := cpu(b)
	for b.Loop() {
		for range pieces {
			if _, err := io.ReadFull(from, q); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N*piece*pieces), "cpu-ns/B")
}

// cpu is the time that this process has computed, which a busy machine changes less than what the clock shows.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkBulk(b *testing.B) {
	h := open(b, Config{})
	_, here, there := meet(b, h, h.invite(0, 0, 0))
	bulk(b, there, here)
}

// BenchmarkBulkTCP is the same without TLS.
func BenchmarkBulkTCP(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer there.Close()
	here, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer here.Close()
	bulk(b, there, here)
}
