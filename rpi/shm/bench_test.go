package shm

import (
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
)

// pair is rank 0 of two, each in a process of its own.
func pair(b *testing.B, part string) *engine.Engine {
	m := New()
	e := engine.New(engine.Config{Rank: 0, Size: 2, Modules: []rpi.Module{m}})
	withChild(b, part, m, e.Sink(0))
	e.Start()
	b.Cleanup(func() { e.Close() })
	return e
}

// BenchmarkPingPong sends a message to a rank in another process and back, as
// real programs do: a word of each cache line is rewritten before.
func BenchmarkPingPong(b *testing.B) {
	for _, n := range []int{8, 1 << 10, 8 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e := pair(b, "echo")
			p := make([]byte, n)
			trip := func() {
				for i := 0; i < n; i += line {
					p[i]++
				}
				if err := e.Send(1, 1, 0, nil, p, engine.Standard, nil); err != nil {
					b.Fatal(err)
				}
				if _, err := e.Recv(1, 1, 0, nil, p, nil); err != nil {
					b.Fatal(err)
				}
			}
			trip()
			b.SetBytes(int64(2 * n))
			for b.Loop() {
				trip()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/way")
		})
	}
}

// BenchmarkRate sends 8-byte messages in windows of 64.
func BenchmarkRate(b *testing.B) {
	e := pair(b, "count")
	var p [8]byte
	var sends [64]engine.Request
	for b.Loop() {
		for i := range sends {
			var err error
			if sends[i], err = e.Isend(1, 1, 0, nil, p[:], engine.Standard); err != nil {
				b.Fatal(err)
			}
		}
		for _, r := range sends {
			if _, err := e.Wait(r, nil); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := e.Recv(1, 1, 0, nil, p[:], nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(sends)*b.N)/b.Elapsed().Seconds()/1e6, "M/s")
}

// BenchmarkFrames is the same without an engine: rings alone, between modules of
// one process that take turns.
func BenchmarkFrames(b *testing.B) {
	w := newWorld(b, 2)
	defer w.Close()
	drop := &discard{}
	w.M[1].env.Sink = drop
	h := eager(0, 8)
	p := make([]byte, 8)
	for b.Loop() {
		for range 64 {
			w.M[0].Send(1, &h, p, 1, true)
		}
		for drop.n < 64 {
			w.M[1].Poll()
		}
		drop.n = 0
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(64*b.N), "ns/frame")
}

// BenchmarkRing is the least that a message can cost: 8 bytes there and back
// between two processes, without engines.
func BenchmarkRing(b *testing.B) {
	m, drop := New(), &discard{}
	withChild(b, "ring", m, drop)
	b.Cleanup(func() { m.Close() })
	h := eager(0, 8)
	p := make([]byte, 8)
	for b.Loop() {
		m.Send(1, &h, p, 1, false)
		for drop.n == 0 {
			m.Poll()
		}
		drop.n = 0
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/way")
}

// BenchmarkCollect is a garbage collection while 16 ranks of a process sleep.
func BenchmarkCollect(b *testing.B) { moduletest.Collect(b, 16, build) }

// discard is a sink that wants nothing.
type discard struct {
	sink
	n int
}

func (d *discard) Deliver(int, *rpi.Header, []byte) error { d.n++; return nil }

// BenchmarkTake sends a message and takes it by the shortcut, between modules of one
// process that take turns: the instructions of both sides.
func BenchmarkTake(b *testing.B) {
	for _, n := range []int{8, 32, 64, 1 << 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b, 2)
			defer w.Close()
			h := eager(0, n)
			p := make([]byte, n)
			for b.Loop() {
				for w.M[0].Send(1, &h, p, 0, false) == rpi.Full {
					w.M[0].Poll()
				}
				if w.M[1].TakeShort(0, h.Ctx, h.Tag, h.Type, p) < 0 {
					w.M[1].Poll() // the ring is new
				}
			}
		})
	}
}

// BenchmarkInTurn sends and receives messages between two ranks of one process that alternate. It
// measures what both sides do, without the caches and the system.
func BenchmarkInTurn(b *testing.B) {
	j := moduletest.NewJob(b, 2, build, moduletest.Options{Config: func(c *engine.Config) { c.Manual = true }})
	defer j.Close()
	a, c := j.Engines[0], j.Engines[1]
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, n := range []int{8, 64, 1 << 10, 4 << 10} {
		p := make([]byte, n)
		b.Run(fmt.Sprint("message/", n), func(b *testing.B) {
			for b.Loop() {
				check(a.Send(1, 1, 0, moduletest.Bytes, p, engine.Standard, nil))
				_, err := c.Recv(0, 1, 0, moduletest.Bytes, p, nil)
				check(err)
				check(c.Send(0, 1, 0, moduletest.Bytes, p, engine.Standard, nil))
				_, err = a.Recv(1, 1, 0, moduletest.Bytes, p, nil)
				check(err)
			}
		})
	}
	for _, n := range []int{8, 1 << 10} {
		p := make([]byte, n)
		var out, in [32]engine.Request
		b.Run(fmt.Sprint("window/", n), func(b *testing.B) {
			for b.Loop() {
				var err error
				for i := range in {
					in[i], err = c.Irecv(0, 1, 0, moduletest.Bytes, p)
					check(err)
				}
				for i := range out {
					out[i], err = a.Isend(1, 1, 0, moduletest.Bytes, p, engine.Standard)
					check(err)
				}
				for i := range out {
					_, err = a.Wait(out[i], nil)
					check(err)
					_, err = c.Wait(in[i], nil)
					check(err)
				}
			}
		})
	}
}
