package bookmarks

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestEveryPairMeetsOnce(t *testing.T) {
	for np := 0; np <= 65; np++ {
		met := make(map[[2]int]bool)
		for step := range Steps(np) {
			busy := make(map[int]bool)
			for rank := range np {
				peer, first := Partner(rank, np, step)
				if peer < 0 {
					continue
				}
				back, backFirst := Partner(peer, np, step)
				if back != rank || first == backFirst || peer == rank || peer >= np {
					t.Fatalf("np %d step %d: %d meets %d (first %v), %d meets %d (first %v)", np, step, rank, peer, first, peer, back, backFirst)
				}
				if busy[rank] {
					t.Fatalf("np %d step %d: rank %d meets two", np, step, rank)
				}
				busy[rank] = true
				if got := StepOf(rank, peer, np); got != step {
					t.Fatalf("StepOf(%d, %d, %d) = %d, want %d", rank, peer, np, got, step)
				}
				met[[2]int{rank, peer}] = true
			}
		}
		if len(met) != np*max(np-1, 0) {
			t.Fatalf("np %d: %d ordered pairs met, want %d", np, len(met), np*(np-1))
		}
	}
}

func TestPartnerOfMillions(t *testing.T) {
	const np = 1 << 24
	for _, step := range []int{0, 1, np / 2, np - 2} {
		for _, rank := range []int{0, 1, np/2 - 1, np / 2, np - 2, np - 1} {
			peer, _ := Partner(rank, np, step)
			if back, _ := Partner(peer, np, step); back != rank {
				t.Errorf("step %d: %d meets %d, which meets %d", step, rank, peer, back)
			}
		}
	}
}

// wire is the network of the property tests: marks arrive in any order.
type wire struct {
	marks []Mark
	all   []*Exchange
}

func (w *wire) pull(x *Exchange) {
	for m, ok := x.Next(); ok; m, ok = x.Next() {
		w.marks = append(w.marks, m)
	}
}

// TestExchange runs random traffic through both schedules, with marks that
// overtake each other and come twice, and compares with the truth.
func TestExchange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		np := rapid.IntRange(1, 12).Draw(t, "np")
		sparse := rapid.Bool().Draw(t, "sparse")
		sent := make([][]uint64, np)
		for i := range sent {
			sent[i] = rapid.SliceOfN(rapid.Uint64Range(0, 3), np, np).Draw(t, "sent")
		}
		w := &wire{}
		for i := range np {
			c := FromSlice(sent[i], i)
			if sparse {
				w.all = append(w.all, Sparse(i, np, c))
			} else {
				w.all = append(w.all, Staggered(i, np, c))
			}
			w.pull(w.all[i])
		}
		told := make([]bool, np)
		for len(w.marks) > 0 || (sparse && slices.Contains(told, false)) {
			if i := rapid.IntRange(0, np-1).Draw(t, "rank"); sparse && !told[i] {
				told[i] = true
				n := 0
				for j := range np {
					if j != i && sent[j][i] > 0 {
						n++
					}
				}
				if err := w.all[i].Senders(n); err != nil {
					t.Fatal(err)
				}
			}
			if len(w.marks) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(w.marks)-1).Draw(t, "mark")
			m := w.marks[i]
			if !rapid.Bool().Draw(t, "again") {
				w.marks = slices.Delete(w.marks, i, i+1)
			}
			if err := w.all[m.To].Deliver(m.From, m.Sent); err != nil {
				t.Fatal(err)
			}
			w.pull(w.all[m.To])
		}
		for i, x := range w.all {
			if !x.Done() || x.Queued() != 0 || x.Waiting() != "" {
				t.Fatalf("rank %d is not done: %s", i, x.Waiting())
			}
			for j := range np {
				if want := sent[j][i]; j != i && x.Expected().Of(j) != want {
					t.Fatalf("rank %d expects %d of %d, want %d", i, x.Expected().Of(j), j, want)
				}
			}
		}
	})
}

func TestSparseHub(t *testing.T) {
	const np = 1000
	x := Sparse(0, np, nil)
	for round := 0; round < 2; round++ {
		for i := 1; i < np; i++ {
			if err := x.Deliver(i, uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := x.Senders(np - 1); err != nil || !x.Done() {
		t.Fatalf("not done: %s, %v", x.Waiting(), err)
	}
	if err := x.Senders(3); !errors.Is(err, ErrProtocol) {
		t.Errorf("a second number of senders: %v", err)
	}
}

func TestExchangeRefuses(t *testing.T) {
	x := Sparse(1, 4, nil)
	if err := x.Deliver(2, 0); !errors.Is(err, ErrProtocol) {
		t.Errorf("bookmark of nothing: %v", err)
	}
	for _, from := range []int{-1, 1, 4} {
		if err := x.Deliver(from, 1); !errors.Is(err, ErrProtocol) {
			t.Errorf("bookmark of rank %d: %v", from, err)
		}
	}
	if err := x.Senders(1); err != nil {
		t.Fatal(err)
	}
	if err := x.Deliver(0, 1); err != nil {
		t.Fatal(err)
	}
	if err := x.Deliver(2, 1); !errors.Is(err, ErrProtocol) {
		t.Errorf("one more than announced: %v", err)
	}
}

func TestDrain(t *testing.T) {
	d := NewDrain(0, Counts{{1, 100}, {3, 1 << 40}})
	step := func(recv []uint64, done bool, waiting string) {
		t.Helper()
		got, err := d.Update(recv)
		if err != nil || got != done || d.Waiting() != waiting {
			t.Errorf("Update(%v) = %v, %v, waits for %q", recv, got, err, d.Waiting())
		}
	}
	step([]uint64{9, 52, 0, 0}, false, "48 bytes of rank 1 and of 1 more")
	step([]uint64{9, 100, 0, 1<<40 - 1}, false, "1 bytes of rank 3")
	step([]uint64{9, 100, 0, 1 << 40}, true, "")

	for name, recv := range map[string][]uint64{
		"of a sender":   {0, 101, 0, 0},
		"of a stranger": {0, 0, 1, 0},
	} {
		d := NewDrain(0, Counts{{1, 100}})
		if _, err := d.Update(recv); !errors.Is(err, ErrProtocol) {
			t.Errorf("excess %s: %v", name, err)
		}
	}
	d = NewDrain(0, Counts{{1, 100}, {2, 1}})
	if done, err := d.Update([]uint64{0, 100, 0, 0}); done || err != nil {
		t.Error(done, err)
	}
	if _, err := d.Update([]uint64{0, 101, 1, 0}); !errors.Is(err, ErrProtocol) {
		t.Errorf("excess of a peer that was even before: %v", err)
	}
}

func ExamplePartner() {
	for step := range Steps(4) {
		fmt.Print("step ", step, ":")
		for rank := range 4 {
			if peer, first := Partner(rank, 4, step); first {
				fmt.Print(" ", rank, "->", peer)
			}
		}
		fmt.Println()
	}
	// Output:
	// step 0: 0->3 1->2
	// step 1: 0->1 2->3
	// step 2: 0->2 1->3
}
