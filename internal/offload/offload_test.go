package offload

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func newShared(t interface{ Fatal(...any) }) *Shared {
	s, err := Format(make([]byte, Size))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCommands checks that commands come out of their slots as they went in.
func TestCommands(t *testing.T) {
	s := newShared(t)
	rapid.Check(t, func(t *rapid.T) {
		in := Command{Op: Op(rapid.IntRange(1, int(Drop)).Draw(t, "op")), Flags: rapid.Uint32().Draw(t, "flags")}
		for i := range in.A {
			in.A[i] = rapid.Uint64().Draw(t, "a")
		}
		for range rapid.IntRange(0, MaxArgs).Draw(t, "args") {
			in.Args = append(in.Args, Arg{ArgKind(rapid.IntRange(1, 3).Draw(t, "kind")), rapid.SampledFrom([]uint32{1, 2, 4, 8}).Draw(t, "bytes"), rapid.Uint64().Draw(t, "value")})
		}
		ticket := rapid.Uint64Range(1, 5000).Draw(t, "ticket")
		if err := s.Put(ticket, &in); err != nil {
			t.Fatal(err)
		}
		var out Command
		if err := s.Get(ticket, &out); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(in, out) {
			t.Fatalf("put %+v, got %+v", in, out)
		}
	})
	if err := s.Put(1, &Command{Op: Run, Args: make([]Arg, MaxArgs+1)}); err == nil || !strings.Contains(err.Error(), "at most 26") {
		t.Errorf("too many arguments: %v", err)
	}
}

// TestBothSides sends commands through a ring whose both sides sleep now and then. A wake that is lost would cost 100 ms
// each time.
func TestBothSides(t *testing.T) {
	s := newShared(t)
	const n = 20000
	var process sync.WaitGroup
	process.Go(func() {
		var c Command
		for taken := uint64(0); taken < n; {
			tail := s.Tail()
			if tail == taken {
				s.WaitTail(taken, func() bool { return false })
				continue
			}
			for ; taken < tail; taken++ {
				if err := s.Get(taken+1, &c); err != nil || c.A[0] != taken+1 {
					t.Errorf("command %d is %d, %v", taken+1, c.A[0], err)
				}
			}
			s.SetTaken(tail)
			s.SetDone(tail)
		}
	})
	for put := uint64(0); put < n; {
		for ; put < n && put-s.Done() < s.Room() && put%700 != 699; put++ {
			s.Put(put+1, &Command{Op: Free, A: [8]uint64{put + 1}})
		}
		s.PutTail(put)
		for s.Done() < put {
			s.WaitDone(s.Done())
		}
		if put%700 == 699 {
			s.Put(put+1, &Command{Op: Free, A: [8]uint64{put + 1}})
			put++
		}
	}
	s.PutTail(n)
	process.Wait()
}

// TestFailures keeps the first failure, and gives answers in staging.
func TestFailures(t *testing.T) {
	s := newShared(t)
	s.Fail(7, strings.Repeat("x", 5000))
	s.Fail(8, "later")
	if ticket, text := s.Failed(); ticket != 7 || len(text) != headerBytes-textOffset {
		t.Errorf("failed %d, %d bytes of text", ticket, len(text))
	}
	s.Put(9, &Command{Op: Alloc})
	if text, refused := s.Refused(9, 100, 50); refused {
		t.Errorf("refused: %q", text)
	}
	s.Refuse(9, 100, 8, "full")
	if text, refused := s.Refused(9, 100, 8); !refused || text != "full" {
		t.Errorf("%v %q", refused, text)
	}
	s.Refuse(9, 100, 6, "full")
	if text, refused := s.Refused(9, 100, 6); !refused || text != "fu" {
		t.Errorf("%v %q in 6 bytes of room", refused, text)
	}
	s.SetTimes(9, 5, 6)
	if begin, end := s.Times(9); begin != 5 || end != 6 {
		t.Error(begin, end)
	}
	if _, err := s.Part(StagingBytes-1, 2); err == nil {
		t.Error("a part that is not in staging")
	}
}

// FuzzShared reads what may stand in a file that is none of ours.
func FuzzShared(f *testing.F) {
	s := newShared(f)
	s.Put(1, &Command{Op: Run, Flags: Timed, A: [8]uint64{1, 1, 64}, Args: []Arg{{ArgScalar, 4, 7}}})
	s.PutTail(1)
	f.Add(s.mem[:headerBytes+SlotBytes])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		mem := make([]byte, headerBytes+16*SlotBytes+4096)
		copy(mem, data)
		s, err := Attach(mem)
		if err != nil {
			return
		}
		var c Command
		for i := s.Done(); i < s.Tail(); i++ {
			if s.Get(i+1, &c) == nil {
				s.Part(c.A[3], c.A[2])
				s.Refuse(i+1, c.A[3], c.A[4], "no")
				s.Refused(i+1, c.A[3], c.A[4])
			}
		}
		s.Fail(1, "text")
		s.Failed()
	})
}

// FuzzPackets reads packets, and writes what it has read.
func FuzzPackets(f *testing.F) {
	f.Add([]byte(`{"op":"capture","attempt":3,"path":"/p","end":true,"skip":[1,2]}`))
	f.Add([]byte(`{"op":"hello","version":1,"info":{"kind":"gpu","double":true}}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		if o, err := ParseOrder(p); err == nil {
			again(t, o, ParseOrder)
		}
		if a, err := ParseAnswer(p); err == nil {
			again(t, a, ParseAnswer)
		}
	})
}

func again[T any](t *testing.T, v T, parse func([]byte) (T, error)) {
	p, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	w, err := parse(p)
	q, _ := json.Marshal(w)
	if err != nil || string(p) != string(q) {
		t.Fatalf("%s became %s, %v", p, q, err)
	}
}
