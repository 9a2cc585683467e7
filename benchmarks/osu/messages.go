package main

import (
	"time"

	"github.com/gorun-mpi/gorun/mpi"
)

const (
	tagData = 1
	tagAck  = 2
)

// messages are the tests of messages. Those between two ranks are those of pairs, with one pair.
var messages = []*test{
	{name: "osu_latency", title: "Latency Test", heads: []string{"Latency (us)"}, run: latency, single: true},
	{name: "osu_bw", title: "Bandwidth Test", heads: []string{"Bandwidth (MB/s)"}, run: bandwidth(false), single: true, windows: true},
	{name: "osu_bibw", title: "Bi-Directional Bandwidth Test", heads: []string{"Bandwidth (MB/s)"}, run: bandwidth(true), single: true, windows: true},
	{name: "osu_multi_lat", title: "Multi Latency Test", heads: []string{"Latency (us)"}, run: latency},
	{name: "osu_mbw_mr", title: "Multiple Bandwidth / Message Rate Test", heads: []string{"MB/s", "Messages/s"}, run: bandwidth(false), windows: true},
}

func init() {
	for _, t := range messages {
		t.min, t.max, t.unit = 1, 4<<20, 1
		t.room = func(int) int { return 2 }
		t.reps, t.skip = [2]int{10000, 1000}, [2]int{100, 10}
		if t.windows {
			t.reps, t.skip = [2]int{100, 20}, [2]int{10, 2}
		}
	}
}

// pairs are the ranks of a test of messages.
type pairs struct {
	c      *mpi.Comm
	n      int
	first  bool // this rank is in the first half
	peer   int  // -1: it is in no pair
	window int
}

func newPairs(c *mpi.Comm, n, window int) *pairs {
	p := &pairs{c: c, n: n, first: c.Rank() < n, peer: -1, window: window}
	if c.Rank() < 2*n {
		p.peer = (c.Rank() + n) % (2 * n)
	}
	return p
}

// time returns the mean time of a repetition of step on the ranks of the first half.
func (p *pairs) time(reps, skip int, step func() error) (float64, error) {
	if err := mpi.Barrier(p.c); err != nil {
		return 0, err
	}
	var start time.Time
	for i := 0; p.peer >= 0 && i < skip+reps; i++ {
		if i == skip {
			start = time.Now()
		}
		if err := step(); err != nil {
			return 0, err
		}
	}
	took := 0.0
	if p.first {
		took = time.Since(start).Seconds() / float64(reps)
	}
	sum, err := mpi.AllreduceValue(p.c, took, mpi.Sum)
	return sum / float64(p.n), err
}

// latency returns the time of a message one way, in microseconds.
func latency(p *pairs, size, reps, skip int) ([]float64, error) {
	out, in := buffer(size), buffer(size)
	t, err := p.time(reps, skip, func() error {
		if p.first {
			if err := mpi.Send(p.c, out, p.peer, tagData); err != nil {
				return err
			}
		}
		if _, err := mpi.Recv(p.c, in, p.peer, tagData); err != nil {
			return err
		}
		if !p.first {
			return mpi.Send(p.c, out, p.peer, tagData)
		}
		return nil
	})
	return []float64{1e6 * t / 2}, err
}

// bandwidth returns megabytes and messages a second of all pairs, in windows of messages from the first half to the
// second, or both ways. A window is answered.
func bandwidth(both bool) func(p *pairs, size, reps, skip int) ([]float64, error) {
	return func(p *pairs, size, reps, skip int) ([]float64, error) {
		out, in, ack := buffer(size), buffer(size), make([]byte, 4)
		rs, st := make([]mpi.Request, 0, 2*p.window), make([]mpi.Status, 2*p.window)
		t, err := p.time(reps, skip, func() (err error) {
			if rs, err = p.begin(rs[:0], out, in, both); err != nil {
				return err
			}
			if err := mpi.WaitallInto(rs, st[:len(rs)]); err != nil {
				return err
			}
			if p.first {
				_, err := mpi.Recv(p.c, ack, p.peer, tagAck)
				return err
			}
			return mpi.Send(p.c, ack, p.peer, tagAck)
		})
		messages := float64(p.n*p.window) / max(t, 1e-12)
		if both {
			messages *= 2
		}
		return []float64{messages * float64(size) / 1e6, messages}, err
	}
}

// begin posts a window.
func (p *pairs) begin(rs []mpi.Request, out, in []byte, both bool) ([]mpi.Request, error) {
	if both || !p.first {
		for range p.window {
			r, err := mpi.Irecv(p.c, in, p.peer, tagData)
			if err != nil {
				return rs, err
			}
			rs = append(rs, r)
		}
	}
	if both || p.first {
		for range p.window {
			r, err := mpi.Isend(p.c, out, p.peer, tagData)
			if err != nil {
				return rs, err
			}
			rs = append(rs, r)
		}
	}
	return rs, nil
}

// buffer returns memory whose pages are written, or all would be the same one.
func buffer(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}
