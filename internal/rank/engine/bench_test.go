package engine_test

import (
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// BenchmarkSelf is the engine alone: a message to the own rank, received by a
// receive posted before.
func BenchmarkSelf(b *testing.B) {
	e := engine.New(engine.Config{Size: 1, Manual: true})
	e.Start()
	defer e.Close()
	out, in := make([]byte, 8), make([]byte, 8)
	for b.Loop() {
		r, _ := e.Irecv(0, 0, 1, bytesType, in)
		if err := e.Send(0, 0, 1, bytesType, out, engine.Standard, nil); err != nil {
			b.Fatal(err)
		}
		if _, err := e.Wait(r, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPingPong is a round trip of small messages over rpi/mem.
func BenchmarkPingPong(b *testing.B) {
	for _, size := range []int{8, 1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			e := memJob(b, 2)
			done := make(chan struct{})
			go func() {
				defer close(done)
				buf := make([]byte, size)
				for {
					st, err := e[1].Recv(0, 0, engine.AnyTag, bytesType, buf, nil)
					if err != nil || st.Tag == 1 {
						return
					}
					if e[1].Send(0, 0, 0, bytesType, buf, engine.Standard, nil) != nil {
						return
					}
				}
			}()
			buf := make([]byte, size)
			b.ReportAllocs()
			for b.Loop() {
				if err := e[0].Send(1, 0, 0, bytesType, buf, engine.Standard, nil); err != nil {
					b.Fatal(err)
				}
				if _, err := e[0].Recv(1, 0, 0, bytesType, buf, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if err := e[0].Send(1, 0, 1, bytesType, nil, engine.Standard, nil); err != nil {
				b.Fatal(err)
			}
			<-done
		})
	}
}

// BenchmarkStream is small messages one way over rpi/mem.
func BenchmarkStream(b *testing.B) {
	e := memJob(b, 2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 8)
		for {
			st, err := e[1].Recv(0, 0, engine.AnyTag, bytesType, buf, nil)
			if err != nil || st.Tag == 1 {
				return
			}
		}
	}()
	buf := make([]byte, 8)
	for b.Loop() {
		if err := e[0].Send(1, 0, 0, bytesType, buf, engine.Standard, nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := e[0].Send(1, 0, 1, bytesType, nil, engine.Synchronous, nil); err != nil {
		b.Fatal(err)
	}
	<-done
}

// nullModule takes every frame and, at each Poll, delivers one: what is left is
// the price of the engine.
type nullModule struct {
	*rpi.ChanWaiter
	sink rpi.Sink
	h    rpi.Header
}

func (m *nullModule) Name() string { return "null" }

func (m *nullModule) Start(env rpi.Env) ([]byte, error)   { m.sink = env.Sink; return nil, nil }
func (m *nullModule) Restart(env rpi.Env) ([]byte, error) { return m.Start(env) }
func (m *nullModule) Peers([][]byte) error                { return nil }
func (m *nullModule) Reaches(int) bool                    { return true }
func (m *nullModule) EagerLimit() int                     { return 1 << 10 }
func (m *nullModule) Flush() bool                         { return true }
func (m *nullModule) Arm() bool                           { return true }
func (m *nullModule) Quiesce()                            {}
func (m *nullModule) Quiet() bool                         { return true }
func (m *nullModule) Continue()                           {}
func (m *nullModule) Close() error                        { return nil }

func (m *nullModule) Send(int, *rpi.Header, []byte, rpi.Ref, bool) rpi.SendResult { return rpi.Taken }

func (m *nullModule) Poll() bool {
	if _, err := m.sink.Begin(1, &m.h); err != nil {
		return false
	}
	m.sink.End(1)
	return true
}

// BenchmarkOverhead is the engine's own part of a message, by call.
func BenchmarkOverhead(b *testing.B) {
	m := &nullModule{ChanWaiter: rpi.NewChanWaiter(), h: rpi.Header{Kind: rpi.Eager, Type: bytesType.ID, Len: 8}}
	e := engine.New(engine.Config{Size: 2, Modules: []rpi.Module{m}})
	if _, err := m.Start(rpi.Env{Sink: e.Sink(0)}); err != nil {
		b.Fatal(err)
	}
	e.Start()
	defer e.Close()
	buf := make([]byte, 8)
	b.Run("Send", func(b *testing.B) {
		for b.Loop() {
			if err := e.Send(1, 0, 0, bytesType, buf, engine.Standard, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Recv", func(b *testing.B) {
		for b.Loop() {
			if _, err := e.Recv(1, 0, 0, bytesType, buf, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Isend-Wait", func(b *testing.B) {
		for b.Loop() {
			r, err := e.Isend(1, 0, 0, bytesType, buf, engine.Standard)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := e.Wait(r, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCollect is a garbage collection while a hundred ranks sleep.
func BenchmarkCollect(b *testing.B) {
	const n = 100
	f := mem.NewFabric(n)
	moduletest.Collect(b, n, func(rank int) *mem.Module { return f.Module(rank).(*mem.Module) })
}
