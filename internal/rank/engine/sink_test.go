package engine

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// Messages that are alike arrive together as they do one by one, whatever receives there are. A sink
// that has enough gets the rest later.
func TestDeliverAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newAlikeRun()
		defer x.close()
		t.Repeat(map[string]func(*rapid.T){
			"receive": x.receive,
			"deliver": x.deliver,
			"":        x.check,
		})
	})
}

// alikeRun does everything twice: the first engine gets messages together.
type alikeRun struct {
	engines [2]*Engine
	open    [2][]Request
	bufs    [2][][]byte
	count   byte // so that no two payloads are the same
}

func newAlikeRun() *alikeRun {
	x := &alikeRun{}
	for i := range x.engines {
		x.engines[i] = New(Config{Size: 3, Manual: true})
	}
	return x
}

func (x *alikeRun) close() {
	for _, e := range x.engines {
		_ = e.Close()
	}
}

func (x *alikeRun) receive(t *rapid.T) {
	src := rapid.SampledFrom([]int{1, 1, 1, 2, AnySource}).Draw(t, "source")
	tag := rapid.SampledFrom([]int32{5, 5, 5, 6, AnyTag}).Draw(t, "tag")
	size := rapid.SampledFrom([]int{8, 8, 8, 3, 0, 20}).Draw(t, "room")
	typ := rapid.SampledFrom([]*Type{nil, {ID: 7, Size: 1, Name: "seven"}, {ID: 8, Size: 1, Name: "eight"}}).Draw(t, "type")
	for range rapid.IntRange(1, 7).Draw(t, "count") {
		for i, e := range x.engines {
			buf := make([]byte, size)
			r, err := e.Irecv(src, 1, tag, typ, buf)
			if err != nil {
				t.Fatal(err)
			}
			x.open[i], x.bufs[i] = append(x.open[i], r), append(x.bufs[i], buf)
		}
	}
}

func (x *alikeRun) deliver(t *rapid.T) {
	peer, n := rapid.IntRange(1, 2).Draw(t, "peer"), rapid.SampledFrom([]int{8, 8, 3, 0}).Draw(t, "length")
	h := rpi.Header{Kind: rpi.Eager, Ctx: 1, Tag: int32(rapid.IntRange(5, 6).Draw(t, "tag")), Type: 7, Len: uint64(n)}
	count := rapid.IntRange(1, 6).Draw(t, "count")
	all := make([]byte, n*count)
	for i := range all {
		x.count++
		all[i] = x.count
	}
	together := x.engines[0].Sink(0)
	taken, enough := together.(shared.AlikeSink).DeliverAlike(peer, &h, all, count)
	for k := range count {
		err := x.engines[1].Sink(0).Deliver(peer, &h, all[k*n:][:n])
		if k >= taken {
			err = together.Deliver(peer, &h, all[k*n:][:n])
		}
		if k == taken-1 && enough != rpi.IsEnough(err) {
			t.Fatalf("after %d of %d: enough %v; one by one %v", taken, count, enough, err)
		}
	}
}

// check compares what the engines know, and ends what is over.
func (x *alikeRun) check(t *rapid.T) {
	var said [2]string
	for i, e := range x.engines {
		said[i] = fmt.Sprintln(e.Pending(), e.received, e.table.kept, e.table.listed, e.table.posted)
		left := x.open[i][:0]
		for _, r := range x.open[i] {
			if !e.Done(r) {
				left = append(left, r)
				continue
			}
			st, err := e.Wait(r, nil)
			said[i] += fmt.Sprintln(st, err)
		}
		x.open[i] = left
		said[i] += fmt.Sprintln(x.bufs[i])
	}
	if said[0] != said[1] {
		t.Fatalf("together:\n%s\none by one:\n%s", said[0], said[1])
	}
}
