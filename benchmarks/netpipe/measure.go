package main

import (
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/repeat"
	"github.com/gorun-mpi/gorun/benchmarks/internal/stats"
	"github.com/gorun-mpi/gorun/mpi"
)

// measurement is what is known of one size afterwards.
type measurement struct {
	kind  pattern
	size  int
	times []float64 // seconds per message, by batch
	count int       // repetitions in a batch
}

// measure times one size. Rank 0 decides how often; it tells rank 1 before each
// batch, which answers when it is ready: the clock starts with both at work.
func (p *pair) measure(kind pattern, size int, o *options) (measurement, error) {
	m := measurement{kind: kind, size: size}
	var err error
	m.times, m.count, err = repeat.Batches(o.time, o.batches, func(count int) (time.Duration, error) { return p.lead(kind, size, count) })
	if err != nil {
		return m, err
	}
	for i := range m.times {
		m.times[i] /= float64(kind.legs)
	}
	return m, p.tell(0)
}

// lead runs and times one batch on rank 0.
func (p *pair) lead(kind pattern, size, count int) (time.Duration, error) {
	if err := p.tell(count); err != nil {
		return 0, err
	}
	if _, err := mpi.Recv(p.c, p.none, p.peer, tagReady); err != nil {
		return 0, err
	}
	start := time.Now()
	err := kind.run(p, size, count)
	return time.Since(start), err
}

// tell sends rank 1 the number of repetitions; 0 ends the size.
func (p *pair) tell(count int) error { return mpi.SendValue(p.c, count, p.peer, tagCount) }

// follow is rank 1's part of all measurements.
func (p *pair) follow(o *options, kinds []pattern) error {
	for _, kind := range kinds {
		for _, size := range o.sizes {
			for {
				count, _, err := mpi.RecvValue[int](p.c, p.peer, tagCount)
				if err != nil {
					return err
				}
				if count == 0 {
					break
				}
				if err := mpi.Send(p.c, p.none, p.peer, tagReady); err != nil {
					return err
				}
				if err := kind.run(p, size, count); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// seconds is the median time of a message.
func (m *measurement) seconds() float64 { return stats.Median(m.times) }

// mbps is the throughput in 10^6 bits per second, both directions together.
func (m *measurement) mbps() float64 {
	return float64(m.kind.ways*m.size) * 8 / m.seconds() / 1e6
}
