package mem_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// job makes n connected engines.
func job(t testing.TB, n int) []*rpi.Engine {
	t.Helper()
	f := mem.NewFabric(n)
	engines := make([]*rpi.Engine, n)
	addrs := make([][]byte, n)
	for i := range engines {
		m := f.Module(i)
		engines[i] = rpi.New(rpi.Config{Rank: i, Size: n, Modules: []rpi.Module{m}, Waiter: f.Waiter(i)})
		var err error
		if addrs[i], err = m.Start(rpi.Env{Rank: i, Size: n, Sink: engines[i].Sink(0)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range engines {
		if err := f.Module(i).Peers(addrs); err != nil {
			t.Fatal(err)
		}
		e.Start()
	}
	t.Cleanup(func() {
		for _, e := range engines {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return engines
}

var bytesType = &rpi.Type{ID: 8, Size: 1, Name: "uint8"}

func TestPingPong(t *testing.T) {
	e := job(t, 2)
	for _, size := range []int{0, 1, 64, 65, 4096, 16 << 10, 16<<10 + 1, 300 << 10, 3 << 20} {
		out := bytes.Repeat([]byte{byte(size), 3, 7}, size/3+1)[:size]
		var wg sync.WaitGroup
		wg.Go(func() {
			in := make([]byte, size)
			st, err := e[1].Recv(0, 2, 5, bytesType, in, nil)
			if err != nil || st.Bytes != size || st.Source != 0 || st.Tag != 5 {
				t.Error(st, err)
			}
			if err := e[1].Send(0, 2, 6, bytesType, in, rpi.Standard, nil); err != nil {
				t.Error(err)
			}
		})
		if err := e[0].Send(1, 2, 5, bytesType, out, rpi.Standard, nil); err != nil {
			t.Fatal(err)
		}
		in := make([]byte, size)
		if _, err := e[0].Recv(1, 2, 6, bytesType, in, nil); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(in, out) {
			t.Fatalf("%d bytes came back changed", size)
		}
		wg.Wait()
	}
}

// A sender that finds the inbox full goes on when there is room.
func TestFull(t *testing.T) {
	e := job(t, 2)
	const n = 200
	p, in := make([]byte, 16<<10), make([]byte, 16<<10)
	done := make(chan error, 1)
	go func() {
		for range n {
			if err := e[0].Send(1, 2, 0, bytesType, p, rpi.Standard, nil); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range n {
		if _, err := e[1].Recv(0, 2, 0, bytesType, in, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestPeerCloses(t *testing.T) {
	f := mem.NewFabric(2)
	addrs := [][]byte{{1}, {1}}
	var e [2]*rpi.Engine
	for i := range e {
		e[i] = rpi.New(rpi.Config{Rank: i, Size: 2, Modules: []rpi.Module{f.Module(i)}})
		if _, err := f.Module(i).Start(rpi.Env{Sink: e[i].Sink(0)}); err != nil {
			t.Fatal(err)
		}
		if err := f.Module(i).Peers(addrs); err != nil {
			t.Fatal(err)
		}
		e[i].Start()
	}
	defer e[0].Close()
	r, err := e[0].Irecv(1, 2, 0, bytesType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e[1].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e[0].Wait(r, nil); !errors.Is(err, rpi.ErrPeerFailed) {
		t.Fatal(err)
	}
}
