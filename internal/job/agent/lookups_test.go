package agent

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
)

// Ranks of a node ask the head once for what several of them need, and not at all for what it has told of another rank
// of the same node.
func TestLookups(t *testing.T) {
	var l lookups
	ask := func(rank int32, peer uint64) oob.Msg {
		return oob.Msg{Kind: oob.Lookup, From: rank, Incarnation: 7, A: peer}
	}
	for i, x := range []struct {
		m    oob.Msg
		asks bool
	}{{ask(0, 10), true}, {ask(1, 10), false}, {ask(1, 11), true}, {ask(0, 10), false}, {ask(0, 20), true}} {
		if m, asks := l.lookup(x.m); m != nil || asks != x.asks {
			t.Errorf("question %d: %+v, %t", i, m, asks)
		}
	}
	book := wireup.Book{{Transport: "tcp", Ranks: []int{10, 11, 12}, Addresses: [][]byte{{1}, {2}, {3}}}}.Append(nil)
	answers, err := l.located(&oob.Msg{Kind: oob.Located, A: 10, Incarnation: 7, Data: book}, 30)
	got := map[[2]int32]int{}
	for _, a := range answers {
		got[[2]int32{a.To, int32(a.A)}]++
		if a.Kind != oob.Located || a.Incarnation != 7 || string(a.Data) != string(book) {
			t.Errorf("%+v", a)
		}
	}
	if err != nil || len(got) != 3 || got[[2]int32{0, 10}] != 1 || got[[2]int32{1, 10}] != 1 || got[[2]int32{1, 11}] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if m, asks := l.lookup(ask(3, 12)); m == nil || asks || m.To != 3 || m.A != 12 || string(m.Data) != string(book) {
		t.Errorf("%+v, %t", m, asks)
	}
	if answers, err := l.located(&oob.Msg{Kind: oob.Located, A: 11, Incarnation: 7, Data: book}, 30); err != nil || len(answers) > 0 {
		t.Errorf("answered twice: %v, %v", answers, err)
	}
	if _, err := l.located(&oob.Msg{Kind: oob.Located, A: 20, Data: []byte("no book")}, 30); err == nil {
		t.Error("no book is taken for one")
	}
	if _, err := new(lookups).located(&oob.Msg{Kind: oob.Located, A: 10, Data: book}, 30); err == nil {
		t.Error("what nobody has asked is answered")
	}

	// Another incarnation has other addresses.
	later := ask(0, 10)
	later.Incarnation = 8
	if m, asks := l.lookup(later); m != nil || !asks {
		t.Errorf("an address of before: %+v, %t", m, asks)
	}
	if answers, err := l.located(&oob.Msg{Kind: oob.Located, A: 10, Incarnation: 8, Data: book}, 30); err != nil || len(answers) != 1 || answers[0].Incarnation != 8 {
		t.Errorf("%v, %v", answers, err)
	}
	if m, _ := l.lookup(ask(3, 12)); m != nil {
		t.Errorf("of before: %+v", m)
	}
	l.begins(8)
	if m, asks := l.lookup(ask(3, 12)); m != nil || !asks {
		t.Errorf("a question of an incarnation that is over still waits: %+v, %t", m, asks)
	}
}
