package oob

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func anyMsg(t *rapid.T) Msg {
	m := Msg{
		Kind:        Kind(rapid.IntRange(1, int(kinds)-1).Draw(t, "kind")),
		From:        rapid.Int32().Draw(t, "from"),
		To:          rapid.Int32().Draw(t, "to"),
		Incarnation: rapid.Uint64().Draw(t, "inc"),
		Attempt:     rapid.Uint32().Draw(t, "attempt"),
		A:           rapid.Uint64().Draw(t, "a"),
		B:           rapid.Uint64().Draw(t, "b"),
	}
	if d := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data"); len(d) > 0 {
		m.Data = d
	}
	return m
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(anyMsg), 1, 5).Draw(t, "msgs")
		var p []byte
		var err error
		for i := range want {
			if p, err = Append(p, &want[i]); err != nil {
				t.Fatal(err)
			}
		}
		for i := range want {
			var m Msg
			if m, p, err = Decode(p); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(m, want[i]) {
				t.Fatalf("message %d: got %+v, want %+v", i, m, want[i])
			}
		}
		if len(p) != 0 {
			t.Fatalf("%d bytes left", len(p))
		}
	})
}

func TestTooLarge(t *testing.T) {
	if _, err := Append(nil, &Msg{Kind: Output, Data: make([]byte, MaxMsg)}); !errors.Is(err, ErrFrame) {
		t.Fatalf("got %v", err)
	}
}

func conns(t *testing.T) (*Conn, *Conn) {
	t.Helper()
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	ca, err := NewConn(a)
	if err != nil {
		t.Fatal(err)
	}
	cb, err := NewConn(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ca.Close(); cb.Close() })
	return ca, cb
}

// Many senders on one stream: every frame arrives whole, each sender's in order,
// also frames larger than any socket buffer.
func TestConnConcurrentSenders(t *testing.T) {
	a, b := conns(t)
	const senders, each = 8, 50
	var wg sync.WaitGroup
	for s := range senders {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range each {
				size := i * 1000
				if i == each-1 {
					size = 3 << 20
				}
				if err := a.Send(Msg{Kind: Output, From: int32(s), A: uint64(i), Data: bytes.Repeat([]byte{byte(s)}, size)}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	var next [senders]uint64
	for range senders * each {
		m, err := b.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.A != next[m.From] {
			t.Fatalf("sender %d: frame %d, want %d", m.From, m.A, next[m.From])
		}
		next[m.From]++
		if bytes.Count(m.Data, []byte{byte(m.From)}) != len(m.Data) {
			t.Fatalf("sender %d: mixed data", m.From)
		}
	}
	wg.Wait()
	a.Close()
	if _, err := b.Recv(); err != io.EOF {
		t.Fatalf("after close: %v", err)
	}
}

func TestGreetRefusesOtherVersion(t *testing.T) {
	a, b := conns(t)
	if err := a.Send(Msg{Kind: Hello, A: VersionMax + 1, B: VersionMax + 2, Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Greet(HelloInfo{Role: "rank"}, 0); err == nil {
		t.Fatal("a partner from the future was accepted")
	}
	if err := a.Send(Msg{Kind: Up}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Greet(HelloInfo{Role: "rank"}, 0); !errors.Is(err, ErrFrame) {
		t.Fatalf("got %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	p, _ := Append(nil, &Msg{Kind: Bookmark, From: 1, To: 2, A: 3, Data: []byte("x")})
	f.Add(p)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, p []byte) {
		m, rest, err := Decode(p)
		if err != nil {
			return
		}
		back, err := Append(nil, &m)
		if err != nil {
			t.Fatal(err)
		}
		if len(back)+len(rest) != len(p) {
			t.Fatalf("%d bytes in, %d and %d out", len(p), len(back), len(rest))
		}
	})
}
