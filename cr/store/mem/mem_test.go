package mem_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/testing/storetest"
)

// near returns what another process of the node has of a memory.
func near(t testing.TB, m *mem.Memory) *mem.Near {
	a, b := net.Pipe()
	n := mem.NewNear(a)
	var over sync.WaitGroup
	over.Go(func() { mem.Serve(m, b); b.Close() })
	t.Cleanup(func() { n.Close(); over.Wait() })
	return n
}

func memory(t testing.TB, free func() uint64) *mem.Memory {
	m := mem.New(free)
	t.Cleanup(func() { m.Close() })
	return m
}

func TestMemory(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Subject {
		m := memory(t, nil)
		return storetest.Subject{Store: m, Readers: []store.Reading{near(t, m)}}
	})
}

func TestNear(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Subject {
		m := memory(t, nil)
		return storetest.Subject{Store: near(t, m), Readers: []store.Reading{m}}
	})
}

// TestStore writes on one node and reads on both.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Subject {
		a, b := memory(t, nil), memory(t, nil)
		return storetest.Subject{
			Store:   mem.Open("a", a, peers{{Node: "b", Files: b}}),
			Readers: []store.Reading{mem.Open("b", b, peers{{Node: "a", Files: a}})},
		}
	})
}

// peers are other nodes, besides one that does not answer.
type peers []node.Peer

func (p peers) Peers() ([]node.Peer, []string) { return p, []string{"lost"} }

// put writes an image of some size and returns its digest.
func put(t testing.TB, s store.Store, set, piece string, n int, seed byte) (digest string) {
	t.Helper()
	return storetest.PutImage(t, s, set, piece, storetest.Data(n, seed))
}

// TestAgain takes one snapshot after another. The memory of two is enough.
func TestAgain(t *testing.T) {
	m := memory(t, nil)
	const size = 3 << 20
	for seq := 1; seq < 20; seq++ {
		put(t, m, fmt.Sprint("j/", seq), "p", size, byte(seq))
		if err := m.Remove(t.Context(), fmt.Sprint("j/", seq-1)); err != nil {
			t.Fatal(err)
		}
		if held := m.Held(); held > 2*size+size/2 {
			t.Fatalf("%d bytes are held", held)
		}
		if _, digest, _, err := m.Check(t.Context(), fmt.Sprint("j/", seq), "p", true); err != nil || digest == "" {
			t.Fatal(err)
		}
	}
}

// TestReaderKeepsSlot removes a piece that is being read: its slot is not used again before.
func TestReaderKeepsSlot(t *testing.T) {
	m := memory(t, nil)
	n := near(t, m)
	for i, by := range []store.Store{m, n} {
		set := fmt.Sprint("s/", i)
		if err := by.Begin(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		data := storetest.Data(10_000, 1)
		storetest.Put(t, by, set, "p", data)
		r, err := by.Open(t.Context(), set, "p")
		if err != nil {
			t.Fatal(err)
		}
		if err := by.Remove(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		if err := by.Begin(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		storetest.Put(t, by, set, "p", storetest.Data(10_000, 2))
		got := make([]byte, len(data))
		if _, err := r.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
			t.Errorf("what was removed has changed under its reader: %v", err)
		}
		r.Close()
	}
}

// TestWriterDies ends the stream of a process that writes: what it wrote is nothing, what was before stays.
func TestWriterDies(t *testing.T) {
	m := memory(t, nil)
	a, b := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- mem.Serve(m, b) }()
	n := mem.NewNear(a)
	if err := n.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	storetest.Put(t, n, "s", "p", []byte("first"))
	w, err := n.Create(t.Context(), "s", "p", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt([]byte("second"), 0); err != nil {
		t.Fatal(err)
	}
	n.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if got, err := storetest.Get(t, m, "s", "p"); string(got) != "first" {
		t.Errorf("%q, %v", got, err)
	}
	if err := w.Commit(6); err == nil {
		t.Error("committed without a holder")
	}
}

// TestRoom refuses what does not fit, and nothing else.
func TestRoom(t *testing.T) {
	m := memory(t, func() uint64 { return 10 << 20 })
	if err := m.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Create(t.Context(), "s", "p", store.Options{Size: 11 << 20}); !errors.Is(err, mem.ErrRoom) {
		t.Fatal(err)
	}
	if _, err := m.Create(t.Context(), "s", "p", store.Options{Size: 6 << 20}); !errors.Is(err, mem.ErrRoom) {
		t.Errorf("the second slot does not fit: %v", err)
	}
	w, err := m.Create(t.Context(), "s", "p", store.Options{Size: 3 << 20})
	if err != nil {
		t.Fatal(err)
	}
	n := near(t, m)
	if _, err := n.Create(t.Context(), "s", "q", store.Options{Size: 3 << 20}); !errors.Is(err, mem.ErrRoom) {
		t.Errorf("what was promised is given twice: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if w, err = m.Create(t.Context(), "s", "q", store.Options{Size: 5 << 20}); err != nil {
		t.Fatal(err)
	}
	w.Abort()
}

// A piece whose size is told after its slot was lent has its room, and that of its second slot, from then on, or is refused.
func TestGrow(t *testing.T) {
	for name, lender := range map[string]func(m *mem.Memory) store.Lender{
		"here": func(m *mem.Memory) store.Lender { return m }, "near": func(m *mem.Memory) store.Lender { return near(t, m) },
	} {
		t.Run(name, func(t *testing.T) {
			m := memory(t, func() uint64 { return 10 << 20 })
			if err := m.Begin(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			lend := func(piece string) store.Lent {
				l, err := lender(m).Lend(t.Context(), "s", piece, store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			p := lend("p")
			if err := p.Grow(6 << 20); !errors.Is(err, mem.ErrRoom) {
				t.Errorf("two of 6 MB in 10: %v", err)
			}
			if err := errors.Join(p.Grow(3<<20), p.Grow(4<<20)); err != nil {
				t.Error(err)
			}
			q := lend("q")
			if err := q.Grow(2 << 20); !errors.Is(err, mem.ErrRoom) {
				t.Errorf("what was promised is given twice: %v", err)
			}
			if err := errors.Join(p.Abort(), q.Grow(5<<20), q.Abort()); err != nil {
				t.Error(err)
			}
			if err := q.Grow(1); name == "near" && !errors.Is(err, store.ErrClosed) {
				t.Errorf("of a slot that was given back: %v", err)
			}
		})
	}
}

// The room of a piece's second slot is set aside by its first, whether that one's size was known before or not, until it is taken or
// cannot be needed any more.
func TestTurns(t *testing.T) {
	for name, told := range map[string]int64{"told before": 4 << 20, "not told": 0} {
		t.Run(name, func(t *testing.T) {
			var held atomic.Int64 // by the slots: free is asked with the memory locked
			m := memory(t, func() uint64 { return uint64(10<<20 - held.Load()) })
			write := func(set, piece string, n int) error {
				if err := m.Begin(t.Context(), set); err != nil && !errors.Is(err, fs.ErrExist) {
					t.Fatal(err)
				}
				w, err := m.Create(t.Context(), set, piece, store.Options{Size: told})
				if err != nil {
					return err
				}
				if _, err := w.WriteAt(make([]byte, n), 0); err != nil {
					t.Fatal(err)
				}
				err = w.Commit(int64(n))
				held.Store(m.Held())
				return err
			}
			if err := write("1", "p", 4<<20); err != nil {
				t.Fatal(err)
			}
			if err := write("1", "q", 4<<20); !errors.Is(err, mem.ErrRoom) {
				t.Fatalf("the room of p is given to q: %v", err)
			}
			for _, set := range []string{"2", "3"} {
				if err := write(set, "p", 4<<20); err != nil {
					t.Fatal(err)
				}
				m.Remove(t.Context(), map[string]string{"2": "1", "3": "2"}[set])
			}
		})
	}
	m := memory(t, func() uint64 { return 10 << 20 })
	if err := m.Begin(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	put(t, m, "1", "p", 4<<20, 1)
	m.Remove(t.Context(), "1") // its rank is elsewhere now
	if err := m.Begin(t.Context(), "2"); err != nil {
		t.Fatal(err)
	}
	w, err := m.Create(t.Context(), "2", "q", store.Options{Size: 6 << 20}) // 4 MB of which are there
	if err != nil {
		t.Fatalf("room of a piece that was removed is still set aside: %v", err)
	}
	w.Abort()
}

// TestFlip flips a bit of the own copy and of a mirror in turn. It is found, and the other copy is taken.
func TestFlip(t *testing.T) {
	a, b := memory(t, nil), memory(t, nil)
	digest := put(t, a, "s", "p", 1<<20, 7)
	atB := mem.Open("b", b, peers{{Node: "a", Files: a}})
	if _, err := atB.Fetch(t.Context(), "s", "p", node.Image(digest), nil); err != nil {
		t.Fatal(err)
	}
	flip(t, b, "s", "p")
	if _, _, _, err := b.Check(t.Context(), "s", "p", true); !errors.Is(err, image.ErrCorrupt) {
		t.Fatalf("a flipped bit is not found: %v", err)
	}
	r, err := atB.OpenGood(t.Context(), "s", "p", digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(node.Image(digest)(r, r.Size()), r.Close()); err != nil {
		t.Errorf("opened as good: %v", err)
	}
	got, err := atB.Fetch(t.Context(), "s", "p", node.Image(digest), nil)
	if err != nil || got.From != "a" {
		t.Fatalf("%+v, %v", got, err)
	}
	flip(t, a, "s", "p")
	atA := mem.Open("a", a, peers{{Node: "b", Files: b}})
	if got, err := atA.Fetch(t.Context(), "s", "p", node.Image(digest), nil); err != nil || got.From != "b" {
		t.Fatalf("%+v, %v", got, err)
	}
	flip(t, a, "s", "p")
	flip(t, b, "s", "p")
	if _, err := atA.Fetch(t.Context(), "s", "p", node.Image(digest), nil); !errors.Is(err, image.ErrCorrupt) {
		t.Errorf("both copies are damaged: %v", err)
	}
	if _, err := atA.OpenGood(t.Context(), "s", "p", digest); !errors.Is(err, image.ErrCorrupt) {
		t.Errorf("both copies are damaged: %v", err)
	}
}

// TestStale has a mirror of an earlier life under the name of a piece: its digest tells.
func TestStale(t *testing.T) {
	a, b := memory(t, nil), memory(t, nil)
	put(t, b, "s", "p", 1000, 1)
	digest := put(t, a, "s", "p", 1000, 2)
	got, err := mem.Open("b", b, peers{{Node: "a", Files: a}}).Fetch(t.Context(), "s", "p", node.Image(digest), nil)
	if err != nil || got.From != "a" {
		t.Fatalf("%+v, %v", got, err)
	}
}

// flip flips a bit in the middle of a piece.
func flip(t testing.TB, m *mem.Memory, set, piece string) {
	t.Helper()
	path, err := m.Path(set, piece)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var p [1]byte
	if _, err := f.ReadAt(p[:], st.Size()/2); err != nil {
		t.Fatal(err)
	}
	p[0] ^= 8
	if _, err := f.WriteAt(p[:], st.Size()/2); err != nil {
		t.Fatal(err)
	}
}

// TestOver has nothing.
func TestOver(t *testing.T) {
	if _, err := (mem.Over{}).Open(t.Context(), "s", "p"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := (mem.Over{}).Remove(t.Context(), "s"); err != nil {
		t.Error(err)
	}
}

// FuzzServe hears anything from a process of the node: it answers or ends the stream, and lends nothing for ever.
func FuzzServe(f *testing.F) {
	f.Add([]byte(`{"op":"begin","set":"s"}` + "\n" + `{"op":"create","set":"s","piece":"p","size":5}` + "\n" + `{"op":"commit","id":1}` + "\n" + `{"op":"open","set":"s","piece":"p"}` + "\n" + `{"op":"done","id":2}` + "\n"))
	f.Add([]byte(`{"op":"stat","set":"../x","piece":"p"}` + "\n" + `{"op":"create","set":"s","size":-1}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		m := mem.New(nil)
		defer m.Close()
		mem.Serve(m, struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(in), io.Discard})
	})
}
