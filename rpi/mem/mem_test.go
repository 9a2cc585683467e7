package mem_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// job makes n connected engines.
func job(t testing.TB, n int) []*engine.Engine {
	t.Helper()
	f := mem.NewFabric(n)
	j := moduletest.NewJob(t, n, f.Module, moduletest.Options{
		Config: func(c *engine.Config) { c.Waiter = f.Waiter(c.Rank) },
	})
	t.Cleanup(j.Close)
	return j.Engines
}

var bytesType = moduletest.Bytes

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
			if err := e[1].Send(0, 2, 6, bytesType, in, engine.Standard, nil); err != nil {
				t.Error(err)
			}
		})
		if err := e[0].Send(1, 2, 5, bytesType, out, engine.Standard, nil); err != nil {
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
			if err := e[0].Send(1, 2, 0, bytesType, p, engine.Standard, nil); err != nil {
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
	e := moduletest.NewJob(t, 2, mem.NewFabric(2).Module, moduletest.Options{}).Engines
	defer e[0].Close()
	r, err := e[0].Irecv(1, 2, 0, bytesType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e[1].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e[0].Wait(r, nil); !errors.Is(err, engine.ErrPeerFailed) {
		t.Fatal(err)
	}
}
