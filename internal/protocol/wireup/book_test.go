package wireup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// someBook draws a book of a job.
func someBook(t *rapid.T, size int) Book {
	var b Book
	for _, name := range []string{"", "shm", "tcp"}[:rapid.IntRange(0, 3).Draw(t, "sheets")] {
		s := Sheet{Transport: name}
		for r := range size {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				s.add(r, rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "address"))
			case 1:
				s.add(r, fmt.Appendf(nil, "10.0.0.%d:4711 and more", r))
			case 2:
				if n := len(s.Asked); n > 0 && s.Asked[n-1][1] == r-1 {
					s.Asked[n-1][1] = r
				} else {
					s.Asked = append(s.Asked, [2]int{r, r})
				}
			}
		}
		b = append(b, s)
	}
	return b
}

// A book comes back as it was, also one that is filled in, and no part of one is a book.
func TestBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 9).Draw(t, "size")
		b := someBook(t, size)
		p := b.Append(nil)
		got, err := ParseBook(p, size)
		if err != nil || len(got) != len(b) {
			t.Fatal(got, err)
		}
		for i, s := range b {
			all := make([][]byte, size)
			got.Fill(s.Transport, all)
			for r := range all {
				want := b.Of(s.Transport, r)
				for _, run := range s.Asked {
					if want == nil && run[0] <= r && r <= run[1] {
						want = []byte{}
					}
				}
				if !bytes.Equal(all[r], want) || (all[r] == nil) != (want == nil) || got.Of(s.Transport, r) == nil && len(want) > 0 {
					t.Fatalf("sheet %d, rank %d: %q, want %q", i, r, all[r], want)
				}
			}
		}
		for n := range p {
			if _, err := ParseBook(p[:n], size); err == nil {
				t.Fatalf("%d of %d bytes are a book", n, len(p))
			}
		}
	})
}

// What has come from outside is a book or refused, and a book is bounded by the job.
func FuzzBook(f *testing.F) {
	f.Add(Book{{Transport: "tcp", Ranks: []int{0, 2}, Addresses: [][]byte{[]byte("abc"), []byte("axc")}, Asked: [][2]int{{1, 1}, {3, 4}}}}.Append(nil), 5)
	f.Fuzz(func(t *testing.T, p []byte, size int) {
		if size < 1 || size > 100 {
			return
		}
		b, err := ParseBook(p, size)
		if err != nil {
			return
		}
		for _, s := range b {
			if len(s.Ranks) > size || len(s.Asked) > size {
				t.Fatalf("%d ranks and %d runs of %d", len(s.Ranks), len(s.Asked), size)
			}
			b.Fill(s.Transport, make([][]byte, size))
		}
		again, err := ParseBook(b.Append(nil), size)
		if err != nil || !reflect.DeepEqual(again, b) {
			t.Fatalf("%v, then %v, %v", b, again, err)
		}
	})
}

// The addresses of a node's ranks differ in a few bytes, and take a few.
func TestBookSize(t *testing.T) {
	s := Sheet{Transport: "tcp"}
	for r := range 64 {
		s.add(r, fmt.Appendf(nil, "\x02\x01%c%c\x04\x18\x04\x0a\x00\x00\x01eth0\x10\x40\x04................ib0 ", byte(r), byte(0x80+r/7)))
	}
	if n := len(Book{s}.Append(nil)); n > 64*6+60 {
		t.Errorf("%d bytes", n)
	}
}

// addressed makes ranks tell their addresses.
func addressed(t *testing.T, h *Head, size int, of func(rank int) oob.AddressInfo) {
	t.Helper()
	for r := range size {
		data, err := json.Marshal(of(r))
		if err != nil {
			t.Fatal(err)
		}
		if done, err := h.Address(r, &oob.Msg{Data: data}); err != nil || done != (r == size-1) {
			t.Fatal(done, err)
		}
	}
}

// Who is told what: of transports within a node its ranks, of those that ask nothing in a large job, of others all.
func TestPeers(t *testing.T) {
	const size = 6
	for _, x := range []struct {
		whole          int
		books, asks    bool
		plain, located bool
	}{{whole: WholeBytes, books: true, asks: true, located: true}, {whole: 10, books: true, asks: true, located: true}, {whole: -1, books: true}, {whole: -1, asks: true, plain: true}} {
		h := New(size)
		h.Place([]int32{0, 0, 1, 1, 0, 1})
		h.AskFrom(x.whole)
		addressed(t, h, size, func(r int) oob.AddressInfo {
			info := oob.AddressInfo{Books: x.books || r != 3, Local: []string{"shm"}, Modules: map[string][]byte{"shm": {1, byte(r)}, "tcp": {2, byte(r), 3}, "ib": {4, byte(r)}}}
			if x.asks {
				info.Asks = []string{"tcp"}
			}
			if r == 5 {
				delete(info.Modules, "tcp")
			}
			return info
		})
		for node := range 2 {
			m := h.Peers(node)
			if (m.A == 0) != x.plain {
				t.Fatalf("%+v: told %+v", x, m)
			}
			if x.plain {
				var all []map[string][]byte
				if err := json.Unmarshal(m.Data, &all); err != nil || len(all) != size || string(all[4]["tcp"]) != "\x02\x04\x03" || all[5]["tcp"] != nil {
					t.Errorf("%v, %v", all, err)
				}
				continue
			}
			b, err := ParseBook(m.Data, size)
			if err != nil {
				t.Fatal(err)
			}
			told := map[string][][]byte{}
			for _, name := range []string{"shm", "tcp", "ib"} {
				told[name] = make([][]byte, size)
				b.Fill(name, told[name])
			}
			for r := range size {
				if (told["shm"][r] != nil) != (h.addresses.node[r] == int32(node)) {
					t.Errorf("node %d is told of shm of rank %d: %v", node, r, told["shm"][r])
				}
				if len(told["ib"][r]) != 2 || (told["tcp"][r] == nil) != (r == 5) || r != 5 && (len(told["tcp"][r]) == 0) != (x.asks && x.whole < WholeBytes) {
					t.Errorf("%+v: of rank %d: %v, %v", x, r, told["ib"][r], told["tcp"][r])
				}
			}
		}
		m, err := h.Locate(&oob.Msg{A: 4})
		if err != nil || m.A != 4 || m.Kind != oob.Located {
			t.Fatal(m, err)
		}
		b, err := ParseBook(m.Data, size)
		if got := b.Of("tcp", 4); err != nil || (string(got) == "\x02\x04\x03") != (x.asks) || b.Of("shm", 4) != nil || x.asks && b.Of("tcp", 0) == nil || b.Of("tcp", 2) != nil {
			t.Errorf("%+v: %v, %v", x, b, err)
		}
		if _, err := h.Locate(&oob.Msg{A: size}); err == nil {
			t.Error("a rank that there is not is found")
		}
	}
}

// A transport that is opened in a later round is told with those of that round.
func TestPeersLater(t *testing.T) {
	h := New(2)
	all := func(name string, ranks ...int) func(int) oob.AddressInfo {
		return func(r int) oob.AddressInfo {
			info := oob.AddressInfo{Books: true, Local: []string{"shm"}, Asks: []string{"tcp"}, Modules: map[string][]byte{}}
			for _, rank := range ranks {
				if rank == r {
					info.Modules[name] = []byte{byte(r), 1}
				}
			}
			return info
		}
	}
	addressed(t, h, 2, all("tcp", 0))
	for r := range 2 {
		data, _ := json.Marshal(oob.ReachInfo{Order: []string{"shm", "tcp"}, Opened: []string{"tcp"}[r:], Left: true})
		if _, done, err := h.Reach(r, &oob.Msg{Data: data}); done || err != nil {
			t.Fatal(done, err)
		}
	}
	addressed(t, h, 2, all("tcp", 1))
	b, err := ParseBook(h.Peers(0).Data, 2)
	if err != nil || b.Of("tcp", 1) == nil || b.Of("tcp", 0) != nil {
		t.Errorf("%v, %v", b, err)
	}
}
