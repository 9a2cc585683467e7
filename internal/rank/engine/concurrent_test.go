package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
)

// waitUntil lets others run until cond holds.
func waitUntil(cond func() bool) {
	for !cond() {
		runtime.Gosched()
	}
}

// A send that was given up before its go-ahead tells the receive so.
func TestGivenUp(t *testing.T) {
	for _, taken := range []bool{false, true} {
		for _, from := range []int{0, 1} { // another rank, and this one
			e := memJob(t, 2)
			c, cancel := context.WithCancel(context.Background())
			v := engine.NewView(c, e[from])
			failed := make(chan error)
			go func() { failed <- e[from].Send(1, ctx, 1, bytesType, make([]byte, 1<<20), engine.Standard, v) }()
			var m engine.Message
			var err error
			if taken {
				m, _, err = e[1].Mprobe(from, ctx, 1, nil)
			} else {
				_, err = e[1].Probe(from, ctx, 1, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-failed; !errors.Is(err, engine.ErrDeadline) || !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if taken {
				_, err = e[1].Wait(must(t)(e[1].Imrecv(m, bytesType, make([]byte, 1<<20))), nil)
			} else if from == 0 {
				_, err = e[1].Recv(from, ctx, 1, bytesType, make([]byte, 1<<20), nil)
			} else {
				if _, ok, err := e[1].Iprobe(1, ctx, 1); ok || err != nil {
					t.Fatal("a message to oneself outlives its send:", ok, err)
				}
				continue
			}
			if !errors.Is(err, engine.ErrCanceled) {
				t.Fatal(err)
			}
		}
	}
}

// A receive that was given up is gone: the message goes to the next one.
func TestDeadline(t *testing.T) {
	e := memJob(t, 2)
	c, cancel := context.WithCancel(context.Background())
	v := engine.NewView(c, e[1])
	defer v.Stop()
	calls := map[string]func() error{
		"Recv":  func() error { _, err := e[1].Recv(0, ctx, 1, bytesType, make([]byte, 1), v); return err },
		"Probe": func() error { _, err := e[1].Probe(0, ctx, engine.AnyTag, v); return err },
		"Ssend": func() error { return e[1].Send(0, ctx, 1, bytesType, nil, engine.Synchronous, v) },
		"Wait": func() error {
			r, err := e[1].Irecv(0, ctx, 2, bytesType, nil)
			if err != nil {
				return err
			}
			_, err = e[1].Wait(r, v)
			if err := e[1].Cancel(r); err != nil {
				return err
			}
			if _, err := e[1].Wait(r, nil); !errors.Is(err, engine.ErrCanceled) {
				return err
			}
			return err
		},
		"WaitAny": func() error {
			r, err := e[1].Irecv(0, ctx, 3, bytesType, nil)
			if err != nil {
				return err
			}
			_, err = e[1].WaitAny([]engine.Request{{}, r}, v)
			return err
		},
	}
	var wg sync.WaitGroup
	for name, call := range calls {
		wg.Go(func() {
			if err := call(); !errors.Is(err, engine.ErrDeadline) || !errors.Is(err, context.Canceled) {
				t.Error(name, err)
			}
		})
	}
	waitUntil(func() bool {
		all := strings.Join(e[1].Pending(), "\n")
		for _, what := range []string{"Recv(source 0, tag 1", "Probe(source 0, tag any", "Ssend(destination 0", "Irecv(source 0, tag 2", "Irecv(source 0, tag 3"} {
			if !strings.Contains(all, what) {
				return false
			}
		}
		return true
	})
	cancel()
	wg.Wait()
	if _, err := e[1].Recv(0, ctx, 1, bytesType, nil, v); !errors.Is(err, engine.ErrDeadline) {
		t.Error("a call with a view that has ended:", err)
	}
	if err := e[0].Send(1, ctx, 1, bytesType, []byte{8}, engine.Standard, nil); err != nil {
		t.Fatal(err)
	}
	in := make([]byte, 1)
	if _, err := e[1].Recv(0, ctx, 1, bytesType, in, nil); err != nil || in[0] != 8 {
		t.Fatal(in, err)
	}
}

func TestAbort(t *testing.T) {
	e := memJob(t, 2)
	cause := errors.New("the cause")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var err error
			switch i % 4 {
			case 0:
				_, err = e[0].Recv(1, ctx, 0, bytesType, nil, nil)
			case 1:
				err = e[0].Send(1, ctx, 0, bytesType, nil, engine.Synchronous, nil)
			case 2:
				_, err = e[0].Probe(engine.AnySource, ctx, 5, nil)
			case 3:
				err = e[0].Send(0, ctx, 9, bytesType, nil, engine.Synchronous, nil)
			}
			if !errors.Is(err, engine.ErrAborted) || !errors.Is(err, cause) {
				t.Error(err)
			}
		})
	}
	waitUntil(func() bool { return len(e[0].Pending()) == 8 })
	e[0].Abort(cause)
	wg.Wait()
	if _, err := e[0].Irecv(1, ctx, 0, bytesType, nil); !errors.Is(err, engine.ErrAborted) {
		t.Error(err)
	}
}

// While the program computes, the background goroutine answers and receives.
func TestProgressWithoutCalls(t *testing.T) {
	e := memJob(t, 2)
	big := pattern(3<<20, 1)
	r := must(t)(e[0].Isend(1, ctx, 1, bytesType, big, engine.Standard))
	in := make([]byte, len(big))
	if _, err := e[1].Recv(0, ctx, 1, bytesType, in, nil); err != nil || !bytes.Equal(in, big) {
		t.Fatal(err)
	}
	if _, err := e[0].Wait(r, nil); err != nil {
		t.Fatal(err)
	}
}

// flushing tells when Flush is called.
type flushing struct {
	*fake
	flushed chan bool
}

func (m flushing) Flush() bool {
	select {
	case m.flushed <- true:
	default:
	}
	return true
}

// A batch leaves although the program neither waits nor sends.
func TestBackgroundFlushes(t *testing.T) {
	f := newFakeNet(t, 2)
	m := flushing{f.modules[0], make(chan bool, 1)}
	e := engine.New(engine.Config{Size: 2, Modules: []rpi.Module{m}})
	if _, err := m.Start(rpi.Env{Size: 2, Sink: e.Sink(0)}); err != nil {
		t.Fatal(err)
	}
	if err := m.Peers([][]byte{{0}, {1}}); err != nil {
		t.Fatal(err)
	}
	e.Start()
	for range 3 {
		for range 2 {
			if err := e.Send(1, ctx, 0, bytesType, nil, engine.Standard, nil); err != nil {
				t.Fatal(err)
			}
		}
		<-m.flushed
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// threads returns how many threads the process has.
func threads(t testing.TB) int {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Skip(err)
	}
	return len(tasks)
}

// Ten thousand goroutines in Recv are not ten thousand threads, the collector
// runs while all of them wait, and each gets its message.
func TestManyReceivers(t *testing.T) {
	e := memJob(t, 2)
	const n = 10_000
	var wg sync.WaitGroup
	var wrong atomic.Int64
	for i := range n {
		wg.Go(func() {
			var in [4]byte
			if _, err := e[1].Recv(0, ctx, int32(i), bytesType, in[:], nil); err != nil || binary.LittleEndian.Uint32(in[:]) != uint32(i) {
				wrong.Add(1)
			}
		})
	}
	waitUntil(func() bool { return len(e[1].Pending()) == n })
	if n := threads(t); n > 20 {
		t.Errorf("%d threads", n)
	}
	runtime.GC()
	for i := range n {
		var out [4]byte
		k := i * 7919 % n
		binary.LittleEndian.PutUint32(out[:], uint32(k))
		if err := e[0].Send(1, ctx, int32(k), bytesType, out[:], engine.Standard, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := threads(t); n > 20 {
		t.Errorf("%d threads", n)
	}
	// A sender that does not wait leaves its last messages to the next flush.
	wg.Wait()
	if n := wrong.Load(); n != 0 {
		t.Errorf("%d receives went wrong", n)
	}
	checkNothingLeft(t, e)
}

// Many goroutines send and receive with wildcards, names and matched probes at
// once: each message arrives once, and in order for each sender that is alone
// in its context.
func TestTraffic(t *testing.T) {
	const ranks, each = 3, 400
	e := memJob(t, ranks)
	var wg sync.WaitGroup
	var got [ranks * ranks * each]atomic.Int32
	for me := range ranks {
		for to := range ranks {
			wg.Go(func() { sendNumbered(t, e[me], to, each) })
		}
		for from := range ranks {
			wg.Go(func() { receiveNumbered(t, e[me], from, each, got[(me*ranks+from)*each:]) })
		}
	}
	wg.Wait()
	for i := range got {
		if n := got[i].Load(); n != 1 {
			t.Errorf("message %d arrived %d times", i, n)
		}
	}
	checkNothingLeft(t, e)
}

// sendNumbered sends n messages of mixed lengths; each begins with its number.
func sendNumbered(t *testing.T, e *engine.Engine, to, n int) {
	rnd := rand.New(rand.NewPCG(uint64(e.Rank()), uint64(to)))
	for i := range n {
		p := make([]byte, []int{4, 40, 4000, 40_000}[rnd.IntN(4)])
		binary.LittleEndian.PutUint32(p, uint32(i))
		if err := e.Send(to, uint64(e.Rank()), int32(i%3), bytesType, p, engine.SendMode(rnd.IntN(2)), nil); err != nil {
			t.Error(err)
			return
		}
	}
}

// receiveNumbered receives what a rank sends here, in changing ways.
func receiveNumbered(t *testing.T, e *engine.Engine, from, n int, got []atomic.Int32) {
	buf := make([]byte, 40_000)
	for i := range n {
		var err error
		src := from
		if i%2 == 0 {
			src = engine.AnySource // contexts are the senders' own
		}
		switch i % 4 {
		case 0:
			_, err = e.Recv(src, uint64(from), engine.AnyTag, bytesType, buf, nil)
		case 1:
			_, err = e.Recv(src, uint64(from), int32(i%3), bytesType, buf, nil)
		case 2:
			var m engine.Message
			var r engine.Request
			if m, _, err = e.Mprobe(src, uint64(from), engine.AnyTag, nil); err == nil {
				if r, err = e.Imrecv(m, bytesType, buf); err == nil {
					_, err = e.Wait(r, nil)
				}
			}
		case 3:
			var r engine.Request
			if r, err = e.Irecv(src, uint64(from), engine.AnyTag, bytesType, buf); err == nil {
				for ok := false; !ok && err == nil; {
					_, ok, err = e.Test(r)
				}
			}
		}
		if err != nil {
			t.Error(err)
			return
		}
		k := binary.LittleEndian.Uint32(buf)
		if int(k) != i {
			t.Errorf("message %d of rank %d came as number %d", k, from, i)
			return
		}
		got[k].Add(1)
	}
}

// A receive is either canceled or gets its message, never both, never neither.
func TestCancelRace(t *testing.T) {
	e := memJob(t, 2)
	const n = 300
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			if err := e[0].Send(1, ctx, 0, bytesType, []byte{byte(i)}, engine.Standard, nil); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
		}
	})
	in := make([]byte, 1)
	for got := 0; got < n; {
		r := must(t)(e[1].Irecv(0, ctx, 0, bytesType, in))
		if err := e[1].Cancel(r); err != nil {
			t.Fatal(err)
		}
		switch _, err := e[1].Wait(r, nil); {
		case err == nil:
			if in[0] != byte(got) {
				t.Fatalf("message %d arrived, want %d", in[0], got)
			}
			got++
		case !errors.Is(err, engine.ErrCanceled):
			t.Fatal(err)
		default:
			e[1].Progress()
		}
	}
	wg.Wait()
	checkNothingLeft(t, e)
}

// One goroutine waits for a request at a time; the handle dies with the first
// that frees it.
func TestWaitTwice(t *testing.T) {
	e := memJob(t, 2)
	r := must(t)(e[1].Irecv(0, ctx, 0, bytesType, nil))
	waits := make(chan error, 2)
	for range 2 {
		go func() { _, err := e[1].Wait(r, nil); waits <- err }()
	}
	if err := <-waits; !errors.Is(err, engine.ErrRequest) {
		t.Fatal(err)
	}
	if err := e[0].Send(1, ctx, 0, bytesType, nil, engine.Standard, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
}

func TestBlocked(t *testing.T) {
	e := memJob(t, 2)
	if s := e[1].Blocked(); s != "" {
		t.Fatal(s)
	}
	done := make(chan error)
	go func() { _, err := e[1].Recv(0, ctx, 7, bytesType, nil, nil); done <- err }()
	waitUntil(func() bool { return strings.Contains(e[1].Blocked(), " for ") })
	if s := e[1].Blocked(); !strings.HasPrefix(s, "Recv(source 0, tag 7, ctx 0x42, 0 bytes) for ") {
		t.Error(s)
	}
	if err := e[0].Send(1, ctx, 7, bytesType, nil, engine.Standard, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// The steady path allocates nothing.
func TestAllocations(t *testing.T) {
	e := memEngines(t, 2, true)
	defer e[0].Close()
	defer e[1].Close()
	for _, size := range []int{8, 1000, 10_000, 100_000} {
		out, in := make([]byte, size), make([]byte, size)
		rs := make([]engine.Request, 2)
		check := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		nonblocking := func() {
			var err error
			rs[0], err = e[1].Irecv(engine.AnySource, ctx, 1, bytesType, in)
			check(err)
			rs[1], err = e[0].Isend(1, ctx, 1, bytesType, out, engine.Standard)
			check(err)
			for !e[1].Done(rs[0]) {
				e[0].Progress()
			}
			_, err = e[1].Wait(rs[0], nil)
			check(err)
			_, err = e[0].Wait(rs[1], nil)
			check(err)
		}
		blocking := func() {
			check(e[0].Send(1, ctx, 1, bytesType, out, engine.Standard, nil))
			_, err := e[1].Recv(0, ctx, 1, bytesType, in, nil)
			check(err)
		}
		unexpected := func() {
			check(e[0].Send(1, ctx, 1, bytesType, out, engine.Standard, nil))
			e[1].Progress()
			_, err := e[1].Recv(0, ctx, 1, bytesType, in, nil)
			check(err)
		}
		for name, f := range map[string]func(){"nonblocking": nonblocking, "blocking": blocking, "unexpected": unexpected} {
			if size > 16<<10 && name != "nonblocking" {
				continue // needs both sides at once
			}
			f()
			f()
			if n := testing.AllocsPerRun(200, f); n != 0 {
				t.Errorf("%s, %d bytes: %v allocations", name, size, n)
			}
		}
	}
}
