package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is matching as the standard words it: two lists, searched from the
// front.
type model struct {
	posted  []*request
	arrived []*message
}

func fits(ctx uint64, src int, tag int32, m *message) bool {
	return ctx == m.h.Ctx && (src == AnySource || src == m.src) && (tag == AnyTag || tag == m.h.Tag)
}

func (o *model) receive(r *request) *message {
	for i, m := range o.arrived {
		if fits(r.ctx, int(r.peer), r.tag, m) {
			o.arrived = slices.Delete(o.arrived, i, i+1)
			return m
		}
	}
	o.posted = append(o.posted, r)
	return nil
}

func (o *model) arrive(m *message) *request {
	for i, r := range o.posted {
		if fits(r.ctx, int(r.peer), r.tag, m) {
			o.posted = slices.Delete(o.posted, i, i+1)
			return r
		}
	}
	o.arrived = append(o.arrived, m)
	return nil
}

// matchRun drives the table and the model with the same calls.
type matchRun struct {
	t     *rapid.T
	table table
	model model
	order int // gives every message a name
	room  int // of keys
}

func (x *matchRun) key(wild bool) (ctx uint64, src int, tag int32) {
	low := 0
	if wild {
		low = -1
	}
	ctx = rapid.Uint64Range(1, 2).Draw(x.t, "ctx")
	src = rapid.IntRange(low, x.room).Draw(x.t, "src")
	tag = int32(rapid.IntRange(low, x.room).Draw(x.t, "tag"))
	return ctx, src, tag
}

func (x *matchRun) message() *message {
	m := &message{}
	m.h.Ctx, m.src, m.h.Tag = x.key(false)
	x.order++
	m.h.Req = uint64(x.order)
	return m
}

func (x *matchRun) receive() {
	r := &request{}
	ctx, src, tag := x.key(true)
	r.ctx, r.peer, r.tag = ctx, int32(src), tag
	want := x.model.receive(r)
	got := x.table.first(ctx, src, tag)
	if got != want {
		x.t.Fatalf("receive (%d %d %d) gets %v, want %v", ctx, src, tag, name(got), name(want))
	}
	if got != nil {
		x.table.remove(got)
	} else {
		x.table.post(r)
	}
}

func (x *matchRun) arrive() {
	m := x.message()
	want := x.model.arrive(m)
	got := x.table.takePosted(m.h.Ctx, m.src, m.h.Tag)
	if got != want {
		x.t.Fatalf("message %d (%d %d %d) goes to %+v, want %+v", m.h.Req, m.h.Ctx, m.src, m.h.Tag, got, want)
	}
	if got == nil {
		x.table.add(m, false)
	}
}

func (x *matchRun) cancel() {
	if n := len(x.model.posted); n > 0 {
		i := rapid.IntRange(0, n-1).Draw(x.t, "which")
		x.table.unpost(x.model.posted[i])
		x.model.posted = slices.Delete(x.model.posted, i, i+1)
	}
}

// inject puts a message in front, as after a restart.
func (x *matchRun) inject() {
	m := x.message()
	if slices.ContainsFunc(x.model.posted, func(r *request) bool {
		return fits(r.ctx, int(r.peer), r.tag, m)
	}) {
		return
	}
	x.model.arrived = slices.Insert(x.model.arrived, 0, m)
	x.table.add(m, true)
}

func (x *matchRun) check() {
	if got := x.table.unexpected(); !slices.Equal(got, x.model.arrived) {
		x.t.Fatalf("%d messages in the table, want %d in their order", len(got), len(x.model.arrived))
	}
	posted, wild := x.table.listed, 0
	if x.table.alone != nil {
		posted++
	}
	for _, n := range x.table.posted {
		wild += n
	}
	if posted != len(x.model.posted) || wild != x.table.wild || wild > x.table.listed {
		x.t.Fatalf("%d receives posted, want %d; %d with wildcards, and by class %d", posted, len(x.model.posted), x.table.wild, wild)
	}
}

func name(m *message) string {
	if m == nil {
		return "nothing"
	}
	return fmt.Sprint("message ", m.h.Req)
}

func TestMatchAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := &matchRun{t: rt, room: rapid.SampledFrom([]int{1, 3, 200}).Draw(rt, "room")}
		x.table.init(x.room + 1)
		rt.Repeat(map[string]func(*rapid.T){
			"receive": func(t *rapid.T) { x.t = t; x.receive() },
			"arrive":  func(t *rapid.T) { x.t = t; x.arrive() },
			"cancel":  func(t *rapid.T) { x.t = t; x.cancel() },
			"inject":  func(t *rapid.T) { x.t = t; x.inject() },
			"":        func(t *rapid.T) { x.t = t; x.check() },
		})
	})
}

// The table forgets keys that are no longer in use.
func TestTableStaysSmall(t *testing.T) {
	var tab table
	tab.init(1 << 12)
	var m message
	for i := range 100_000 {
		m.h.Tag = int32(i)
		tab.add(&m, false)
		tab.remove(&m)
	}
	if n := len(tab.buckets); n != 64 {
		t.Fatalf("%d buckets after use of one key at a time", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		m.h.Tag++
		tab.add(&m, false)
		tab.remove(&m)
	}); n != 0 {
		t.Fatalf("%v allocations for a message", n)
	}
}

func TestSweepKeepsWhatIsInUse(t *testing.T) {
	var tab table
	tab.init(1 << 12)
	tab.post(new(request)) // stands alone
	posted := make([]request, 5000)
	for i := range posted {
		posted[i].ctx, posted[i].tag = 9, int32(i)
		tab.post(&posted[i])
	}
	for i := range posted {
		if r := tab.takePosted(9, 0, int32(i)); r != &posted[i] {
			t.Fatalf("tag %d finds %v", i, r)
		}
	}
}

// BenchmarkMatch times a match alone, with depth others waiting: a message that
// finds its receive, or a receive its message, by name or by wildcard, and takes
// it out. In turns of a tenth of the depth all are put back unmeasured. Messages
// meet their counterparts in the order in which these came or, scattered, in one
// that the processor's caches do not foresee.
func BenchmarkMatch(b *testing.B) {
	for _, depth := range []int{1000, 10_000} {
		for _, wild := range []int{0, AnySource} {
			for order, stride := range map[string]int{"order": 1, "scattered": 7919} {
				b.Run(fmt.Sprintf("posted/depth=%d/source=%d/%s", depth, wild, order), func(b *testing.B) {
					benchPosted(b, depth, wild, stride)
				})
				b.Run(fmt.Sprintf("unexpected/depth=%d/source=%d/%s", depth, wild, order), func(b *testing.B) {
					benchUnexpected(b, depth, wild, stride)
				})
			}
		}
	}
}

// turns calls match for the keys of one turn, timed, then restore for the same
// keys, untimed. (Stopping the benchmark's own clock stops the world.) It reports
// the median turn: most are over before another process gets the processor.
func turns(b *testing.B, depth, stride int, match func(key, i int), restore func(i int)) {
	turn := depth / 10
	stride %= depth
	key := 0
	var spent []time.Duration
	for done := 0; done < b.N; done += turn {
		start := time.Now()
		for i := range turn {
			match(key, i)
			if key += stride; key >= depth {
				key -= depth
			}
		}
		spent = append(spent, time.Since(start))
		for i := range turn {
			restore(i)
		}
	}
	slices.Sort(spent)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(spent[len(spent)/2].Nanoseconds())/float64(turn), "ns/match")
}

func benchPosted(b *testing.B, depth, src, stride int) {
	var tab table
	tab.init(1 << 12)
	rs := make([]request, depth)
	for i := range rs {
		rs[i].ctx, rs[i].tag, rs[i].peer = 2, int32(i), int32(src)
		tab.post(&rs[i])
	}
	taken := make([]*request, depth)
	turns(b, depth, stride,
		func(key, i int) { taken[i] = tab.takePosted(2, 0, int32(key)) },
		func(i int) { tab.post(taken[i]) })
}

func benchUnexpected(b *testing.B, depth, src, stride int) {
	var tab table
	tab.init(1 << 12)
	tab.first(2, src, 0)
	ms := make([]message, depth)
	for i := range ms {
		ms[i].h.Ctx, ms[i].h.Tag = 2, int32(i)
		tab.add(&ms[i], false)
	}
	taken := make([]*message, depth)
	turns(b, depth, stride,
		func(key, i int) {
			taken[i] = tab.first(2, src, int32(key))
			tab.remove(taken[i])
		},
		func(i int) { tab.add(taken[i], false) })
}
