package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/testing/storetest"
)

// dir is a folder as a server offers it.
type dir struct{ *store.Dir }

func (d dir) Check(ctx context.Context, set, piece string, whole bool) (int64, string, image.Meta, error) {
	return Check(ctx, d.Dir, set, piece, whole)
}

// link is a client and a server with a pipe between them.
type link struct {
	client *Client
	server *Server
	ends   [2]net.Conn
	err    [2]error // of Handle
	over   sync.WaitGroup

	mu     sync.Mutex
	damage func(frame []byte, toServer bool) []byte // nil: drop it
}

// named finds stores in a map.
func named(stores map[string]Served) func(string) Served {
	return func(name string) Served { return stores[name] }
}

// connect serves stores over a pipe.
func connect(t testing.TB, stores map[string]Served) *link {
	l := &link{}
	l.ends[0], l.ends[1] = net.Pipe()
	l.client = NewClient(l.sender(l.ends[0], true))
	l.server = NewServer(named(stores), l.sender(l.ends[1], false))
	l.over.Go(func() { l.err[0] = pump(l.ends[0], l.client.Handle); l.client.Close(io.EOF); l.ends[0].Close() })
	l.over.Go(func() { l.err[1] = pump(l.ends[1], l.server.Handle); l.server.Close(); l.ends[1].Close() })
	t.Cleanup(l.close)
	return l
}

func (l *link) close() {
	l.ends[0].Close()
	l.ends[1].Close()
	l.over.Wait()
	l.server.done.Wait()
}

func (l *link) sender(c net.Conn, toServer bool) func([]byte) error {
	var mu sync.Mutex
	return func(p []byte) error {
		l.mu.Lock()
		damage := l.damage
		l.mu.Unlock()
		if damage != nil {
			if p = damage(p, toServer); p == nil {
				return nil
			}
		}
		mu.Lock()
		defer mu.Unlock()
		_, err := c.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(p))), p...))
		return err
	}
}

func pump(c net.Conn, handle func([]byte) error) error {
	for {
		var n [4]byte
		if _, err := io.ReadFull(c, n[:]); err != nil {
			return nil
		}
		p := make([]byte, binary.LittleEndian.Uint32(n[:]))
		if _, err := io.ReadFull(c, p); err != nil {
			return nil
		}
		if err := handle(p); err != nil {
			return err
		}
	}
}

// TestStore runs what all stores have in common, read over a pipe.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Subject {
		d := store.OpenDir(t.TempDir())
		l := connect(t, map[string]Served{"x": dir{d}})
		return storetest.Subject{Store: d, Readers: []store.Reading{l.client.Store("x")}}
	})
}

// filled is a link to a store with one large piece in it.
func filled(t *testing.T, size int) (*link, store.Reader, []byte) {
	d := store.OpenDir(t.TempDir())
	if err := d.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	data := storetest.Data(size, 3)
	storetest.Put(t, d, "s", "p", data)
	l := connect(t, map[string]Served{"x": dir{d}})
	r, err := l.client.Store("x").Open(t.Context(), "s", "p")
	if err != nil {
		t.Fatal(err)
	}
	return l, r, data
}

// TestManyReaders has more readers than the window has room for.
func TestManyReaders(t *testing.T) {
	l, r, data := filled(t, 3*Window+77)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			p := make([]byte, len(data)-i)
			if n, err := r.ReadAt(p, int64(i)); n != len(p) || err != nil || string(p) != string(data[i:]) {
				t.Errorf("reader %d: %d of %d, %v", i, n, len(p), err)
			}
		})
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if l.client.credit != Window || len(l.client.calls) != 0 {
		t.Errorf("%d bytes of credit are left, %d calls", l.client.credit, len(l.client.calls))
	}
}

// TestVanish ends the stream in the middle of a read.
func TestVanish(t *testing.T) {
	l, r, _ := filled(t, 4*Window)
	n := 0
	l.mu.Lock()
	l.damage = func(p []byte, toServer bool) []byte {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n++; n == 9 {
			l.ends[1].Close()
		}
		return p
	}
	l.mu.Unlock()
	p := make([]byte, 4*Window)
	if n, err := r.ReadAt(p, 0); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("%d bytes, %v", n, err)
	}
	l.over.Wait()
	if _, err := l.client.Store("x").Stat(t.Context(), "s", "p"); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("after the end: %v", err)
	}
}

// TestSilence drops every answer: the node is frozen or cut off.
func TestSilence(t *testing.T) {
	l, r, _ := filled(t, 4*Window)
	l.client.silence = 1
	l.mu.Lock()
	l.damage = func(p []byte, toServer bool) []byte { return nil }
	l.mu.Unlock()
	if _, err := r.ReadAt(make([]byte, 4*Window), 0); !errors.Is(err, store.ErrUnreachable) {
		t.Error(err)
	}
	if _, err := l.client.Store("x").Stat(t.Context(), "s", "p"); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("after it: %v", err)
	}
}

// Who has given up asks nobody.
func TestGivenUp(t *testing.T) {
	l, _, _ := filled(t, 1)
	l.mu.Lock()
	l.damage = func(p []byte, toServer bool) []byte {
		t.Error("a frame was sent")
		return p
	}
	l.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.client.Store("x").Stat(ctx, "s", "p"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	l.mu.Lock()
	l.damage = nil
	l.mu.Unlock()
}

// TestFlip flips one bit of each frame in turn. Whatever it hits, nothing wrong is read: the stream ends.
func TestFlip(t *testing.T) {
	for bit := range 24 {
		l, r, data := filled(t, 1000)
		hit := false
		l.mu.Lock()
		l.damage = func(p []byte, toServer bool) []byte {
			l.mu.Lock()
			defer l.mu.Unlock()
			if hit || toServer != (bit%2 == 0) {
				return p
			}
			hit = true
			q := append([]byte(nil), p...)
			at := bit * 7919 % (8 * len(q))
			q[at/8] ^= 1 << (at % 8)
			return q
		}
		l.mu.Unlock()
		p := make([]byte, len(data))
		if n, err := r.ReadAt(p, 0); !errors.Is(err, store.ErrUnreachable) {
			t.Errorf("bit %d: %d bytes, %v", bit, n, err)
		}
		l.close()
		if !errors.Is(errors.Join(l.err[0], l.err[1]), ErrFrame) {
			t.Errorf("bit %d: %v", bit, l.err)
		}
	}
}

// TestGreed asks for more than a server gives.
func TestGreed(t *testing.T) {
	block := make(chan struct{})
	s := NewServer(named(nil), func([]byte) error { <-block; return nil })
	defer func() { close(block); s.Close(); s.done.Wait() }()
	took := 0
	for err := error(nil); err == nil; took++ {
		err = s.Handle((&request{op: opStat, id: uint32(took), store: "x", set: "s", piece: "p"}).encode())
		if err != nil && !errors.Is(err, ErrFrame) {
			t.Fatal(err)
		}
		if took > maxPending+workers { // one for each worker is answered, and cannot be sent
			t.Fatal("it takes whatever it is given")
		}
	}
	if took < maxPending {
		t.Errorf("refused after %d", took)
	}
	if err := s.Handle((&request{op: opRead, handle: 1, n: MaxRead + 1}).encode()); !errors.Is(err, ErrFrame) {
		t.Error(err)
	}
	if err := s.Handle((&request{op: opClose, handle: 1}).encode()); !errors.Is(err, ErrFrame) {
		t.Error(err)
	}
}

// TestHandles opens more pieces than a server keeps open, and gives one up while it is asked for.
func TestHandles(t *testing.T) {
	l, first, _ := filled(t, 10)
	far := l.client.Store("x")
	all := []store.Reader{first}
	for len(all) < maxHandles {
		r, err := far.Open(t.Context(), "s", "p")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if _, err := far.Open(t.Context(), "s", "p"); err == nil {
		t.Error("one too many was opened")
	}
	for _, r := range all {
		r.Close()
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 * maxHandles {
		r, err := far.Open(given, "s", "p") // sometimes the answer is there as soon
		if errors.Is(err, store.ErrUnreachable) {
			t.Fatal(err)
		}
		if err == nil {
			r.Close()
		}
	}
	r, err := far.Open(t.Context(), "s", "p")
	for err != nil && !errors.Is(err, store.ErrUnreachable) { // those given up are closed by and by
		r, err = far.Open(t.Context(), "s", "p")
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

// TestErrors checks that errors keep what they are on the way, and that a server's text is harmless.
func TestErrors(t *testing.T) {
	for _, reason := range reasons[1:] {
		f, err := parse(failed(&request{op: opStat, id: 1}, reason))
		if got := errorOf(f); err != nil || !errors.Is(got, reason) || got.Error() != reason.Error() {
			t.Errorf("%v became %v, %v", reason, got, err)
		}
	}
	f, _ := parse(failed(&request{op: opStat}, errors.New("\x1b[2Jx\n")))
	if got := errorOf(f).Error(); got != "?[2Jx?" {
		t.Errorf("%q", got)
	}
}
