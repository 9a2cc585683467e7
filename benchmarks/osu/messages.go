package main

import (
	"time"

	"github.com/gorun-mpi/gorun/benchmarks/internal/patterns"
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
		t.min, t.max, t.unit = 0, 4<<20, 1
		t.room = func(int) int { return 2 }
		t.reps, t.skip = [2]int{10000, 1000}, [2]int{100, 10}
		if t.windows {
			t.min = 1
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
	both   bool // data go both ways
	window int

	out, in [][]byte // one buffer, or one for each message of a window
	check   bool
	wrong   int // bytes that were not what was sent
}

// newPairs returns the ranks of a test with messages of so many bytes.
func newPairs(c *mpi.Comm, o *options, n, size int) *pairs {
	p := &pairs{c: c, n: n, first: c.Rank() < n, peer: -1, window: o.window, check: o.check}
	if c.Rank() < 2*n {
		p.peer = (c.Rank() + n) % (2 * n)
	}
	for range o.buffers() {
		p.out, p.in = append(p.out, buffer(size)), append(p.in, buffer(size))
	}
	return p
}

// time returns the mean time of a repetition of step on the ranks of the first half.
func (p *pairs) time(reps, skip int, step func() error) (float64, error) {
	run := p.plain
	if p.check {
		run = p.checked
	}
	took, err := run(reps, skip, step)
	if err != nil {
		return 0, err
	}
	if !p.first || p.peer < 0 {
		took = 0
	}
	sum, err := mpi.AllreduceValue(p.c, took.Seconds()/float64(reps), mpi.Sum)
	return sum / float64(p.n), err
}

// plain runs repetitions one after the other.
func (p *pairs) plain(reps, skip int, step func() error) (time.Duration, error) {
	if err := mpi.Barrier(p.c); err != nil {
		return 0, err
	}
	start := time.Now()
	for i := 0; p.peer >= 0 && i < skip+reps; i++ {
		if i == skip {
			start = time.Now()
		}
		if err := step(); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// checked fills the buffers before each repetition and reads them after it.
func (p *pairs) checked(reps, skip int, step func() error) (took time.Duration, err error) {
	for i := range skip + reps {
		for j := range p.out {
			patterns.Fill(p.out[j], p.c.Rank(), j, i)
			clear(p.in[j])
		}
		if err := mpi.Barrier(p.c); err != nil {
			return 0, err
		}
		if p.peer < 0 {
			continue
		}
		start := time.Now()
		if err := step(); err != nil {
			return 0, err
		}
		if i >= skip {
			took += time.Since(start)
		}
		for j := range p.in {
			if p.both || !p.first {
				p.wrong += patterns.Wrong(p.in[j], p.peer, j, i)
			}
		}
	}
	return took, nil
}

// latency returns the time of a message one way, in microseconds.
func latency(p *pairs, reps, skip int) ([]float64, error) {
	p.both = true
	out, in := p.out[0], p.in[0]
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
func bandwidth(both bool) func(p *pairs, reps, skip int) ([]float64, error) {
	return func(p *pairs, reps, skip int) ([]float64, error) {
		p.both = both
		ack := make([]byte, 4)
		rs, st := make([]mpi.Request, 0, 2*p.window), make([]mpi.Status, 2*p.window)
		t, err := p.time(reps, skip, func() (err error) {
			if rs, err = p.begin(rs[:0]); err != nil {
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
		return []float64{messages * float64(len(p.out[0])) / 1e6, messages}, err
	}
}

// begin posts a window.
func (p *pairs) begin(rs []mpi.Request) ([]mpi.Request, error) {
	if p.both || !p.first {
		for i := range p.window {
			r, err := mpi.Irecv(p.c, p.in[i%len(p.in)], p.peer, tagData)
			if err != nil {
				return rs, err
			}
			rs = append(rs, r)
		}
	}
	if p.both || p.first {
		for i := range p.window {
			r, err := mpi.Isend(p.c, p.out[i%len(p.out)], p.peer, tagData)
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
