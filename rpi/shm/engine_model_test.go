//go:build !gorun_nocr

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"pgregory.net/rapid"
)

// Engines over shared memory do anything in any order: they send messages of all protocols, in
// windows that share cells and mixed with others, post and cancel receives, sleep, are left alone,
// stop for checkpoints and come back from images. Each message arrives once and whole, in a
// receive that it fits and that ends with the right error. None overtakes another. Nobody sleeps
// on who has something to receive. What was sent was received.
func TestEnginesMatch(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := newMatching(t, r)
		defer m.Close()
		r.Repeat(map[string]func(*rapid.T){
			"window":     m.window,
			"mix":        m.mix,
			"post":       m.post,
			"cancel":     m.cancel,
			"sweep":      m.sweep,
			"progress":   func(r *rapid.T) { m.Engines[m.rank(r, "rank")].Progress() },
			"sleep":      m.sleep,
			"test":       m.test,
			"checkpoint": m.checkpoint,
			"":           m.check,
		})
		m.finish(r)
		m.assign(r, true)
		m.assign(r, false)
		m.inOrder(r)
	})
}

// matching is what was sent and posted, as callers see it.
type matching struct {
	*moduletest.Job[*narrow]
	begun  []*operation // all
	ended  int          // of them, without canceled ones
	sent   []*message
	posted []*receive
	counts [3][3]int // of messages, by sender and receiver
}

// narrow is a module whose ring and pool may be small.
type narrow struct {
	*Module
	small bool
}

// Peers is the module's.
func (n *narrow) Peers(addrs [][]byte) error {
	err := n.Module.Peers(addrs)
	if n.small {
		shrink(&world{M: []*Module{n.Module}}, 3, 2)
	}
	return err
}

// envelope is what decides which message a receive gets, and whether it likes it.
type envelope struct {
	ctx uint64
	tag int32        // AnyTag: any
	typ *engine.Type // nil: any
}

// operation is a call of a rank, and how it ended.
type operation struct {
	rank    int
	request engine.Request
	over    bool
	status  engine.Status
	err     error
}

// message is one that was sent.
type message struct {
	operation
	envelope
	to, number int
	payload    []byte
	by         *receive // that got it
}

// receive is one that was posted.
type receive struct {
	operation
	envelope
	from, order int
	buf         []byte
}

func (v *receive) fits(x *message) bool {
	return v.rank == x.to && v.ctx == x.ctx && (v.from == engine.AnySource || v.from == x.rank) && (v.tag == engine.AnyTag || v.tag == x.tag)
}

var matchingTypes = []*engine.Type{moduletest.Bytes, {ID: 4, Size: 1, Name: "int8"}}

func newMatching(t *testing.T, r *rapid.T) *matching {
	m := &matching{}
	build := func(int) *narrow { return &narrow{New(), rapid.Bool().Draw(r, "small")} }
	m.Job = moduletest.NewJob(t, rapid.IntRange(2, 3).Draw(r, "ranks"), build, moduletest.Options{
		Env:    moduletest.With("shm.eager", rapid.SampledFrom([]string{"3000", "65536"}).Draw(r, "eager")),
		Config: func(c *engine.Config) { c.Manual = true },
	})
	return m
}

func (m *matching) rank(r *rapid.T, name string) int {
	return rapid.IntRange(0, len(m.Engines)-1).Draw(r, name)
}

// envelope draws one; most are alike.
func (m *matching) envelope(r *rapid.T) envelope {
	return envelope{
		rapid.Uint64Range(1, 2).Draw(r, "context"),
		rapid.SampledFrom([]int32{0, 0, 0, 1, 2}).Draw(r, "tag"),
		matchingTypes[rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(r, "type")],
	}
}

// window sends short messages that are alike: so many that a small ring is full.
func (m *matching) window(r *rapid.T) {
	from, to, env := m.rank(r, "from"), m.rank(r, "to"), m.envelope(r)
	size := rapid.IntRange(0, inlineMax/2+1).Draw(r, "size")
	for range rapid.IntRange(1, 90).Draw(r, "count") {
		m.send(r, from, to, env, size, engine.Standard)
	}
}

// mix sends messages between which cells are opened and closed.
func (m *matching) mix(r *rapid.T) {
	from, to, env := m.rank(r, "from"), m.rank(r, "to"), m.envelope(r)
	for range rapid.IntRange(1, 30).Draw(r, "count") {
		size := rapid.SampledFrom([]int{8, 8, 8, 8, 8, 8, 0, 2, 30, inlineMax + 1, pairMax + 1, 5000, 40_000, 70_000}).Draw(r, "size")
		mode := rapid.SampledFrom([]engine.SendMode{9: engine.Synchronous}).Draw(r, "mode")
		for range rapid.SampledFrom([]int{1, 2, 5}).Draw(r, "alike") {
			m.send(r, from, to, env, size, mode)
		}
	}
}

func (m *matching) send(r *rapid.T, from, to int, env envelope, size int, mode engine.SendMode) {
	k := m.counts[from][to]
	m.counts[from][to]++
	x := &message{envelope: env, to: to, number: k, payload: pattern(k, size)}
	if size >= 2 {
		x.payload = numbered(k, size)
	}
	m.sent = append(m.sent, x)
	request, err := m.Engines[from].Isend(to, x.ctx, x.tag, x.typ, x.payload, mode)
	m.begin(r, &x.operation, from, request, err)
}

func (m *matching) begin(r *rapid.T, o *operation, rank int, request engine.Request, err error) {
	need(r, err)
	o.rank, o.request = rank, request
	m.begun = append(m.begun, o)
}

func need(r *rapid.T, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// post posts receives that are alike, some with wildcards, too little room or another type.
func (m *matching) post(r *rapid.T) {
	at, from, env := m.rank(r, "at"), rapid.IntRange(engine.AnySource, len(m.Engines)-1).Draw(r, "from"), m.envelope(r)
	if rapid.IntRange(0, 5).Draw(r, "any tag") == 5 {
		env.tag = engine.AnyTag
	}
	if rapid.IntRange(0, 5).Draw(r, "any type") == 5 {
		env.typ = nil
	}
	size := rapid.SampledFrom([]int{0, 8, 21, 21, 21, 100, 5000, 70_000}).Draw(r, "room")
	for range rapid.IntRange(1, min(60, 200_000/(size+1))).Draw(r, "count") {
		m.receive(r, at, from, env, size)
	}
}

func (m *matching) receive(r *rapid.T, at, from int, env envelope, size int) *receive {
	v := &receive{envelope: env, from: from, order: len(m.posted), buf: make([]byte, size)}
	m.posted = append(m.posted, v)
	request, err := m.Engines[at].Irecv(from, v.ctx, v.tag, v.typ, v.buf)
	m.begin(r, &v.operation, at, request, err)
	return v
}

// cancel cancels some receives, in whatever state they are.
func (m *matching) cancel(r *rapid.T) {
	for range rapid.IntRange(0, min(len(m.posted), 20)).Draw(r, "count") {
		m.withdraw(r, m.posted[rapid.IntRange(0, len(m.posted)-1).Draw(r, "which")])
	}
}

func (m *matching) withdraw(r *rapid.T, v *receive) {
	if !v.over {
		need(r, m.Engines[v.rank].Cancel(v.request))
	}
}

// sweep uses so many tags that the match table gives up what it does not need.
func (m *matching) sweep(r *rapid.T) {
	at, from := m.rank(r, "at"), m.rank(r, "from")
	for tag := range int32(100) {
		m.withdraw(r, m.receive(r, at, from, envelope{3, tag, nil}, 0))
	}
}

// sleep lets a rank go to sleep as one that waits does: once nothing is left to do.
func (m *matching) sleep(r *rapid.T) {
	i := m.rank(r, "rank")
	for tries := 0; !m.Modules[i].Arm(); tries++ {
		if m.Engines[i].Progress(); tries > 1000 {
			r.Fatalf("rank %d always finds something to do", i)
		}
	}
}

// test looks which operations are over, whose handles are stale then.
func (m *matching) test(r *rapid.T) {
	for _, o := range m.begun {
		if o.over {
			continue
		}
		e := m.Engines[o.rank]
		if o.status, o.over, o.err = e.Test(o.request); !o.over {
			need(r, o.err)
		} else if _, _, err := e.Test(o.request); !errors.Is(err, engine.ErrRequest) {
			r.Fatalf("a stale handle: %v", err)
		} else if !errors.Is(o.err, engine.ErrCanceled) {
			m.ended++
		}
	}
}

// checkpoint drains all channels, sometimes takes the job to its next incarnation, and lets it go
// on. What was counted as sent and as received is the same before and after.
func (m *matching) checkpoint(r *rapid.T) {
	if rapid.Bool().Draw(r, "not now") {
		return
	}
	for _, e := range m.Engines {
		e.CloseGate()
		e.Quiesce()
	}
	for tries := 0; !m.drained(); tries++ {
		if tries > 3000 {
			r.Fatal("the channels do not drain: ", m.differ())
		}
	}
	if rapid.Bool().Draw(r, "restart") {
		m.Restart(func(n *narrow) {
			petrify(m.T, n.Module)
			n.small = rapid.Bool().Draw(r, "small")
		})
		need(r, m.differ())
	}
	for _, e := range m.Engines {
		e.OpenGate()
	}
}

// drained makes a step and reports whether all have received what was sent to them.
func (m *matching) drained() bool {
	quiet := true
	for _, e := range m.Engines {
		e.Step()
		quiet = quiet && e.Quiet()
	}
	return quiet && m.differ() == nil
}

// differ names two ranks of which one has not received what the other has sent.
func (m *matching) differ() error {
	for from, e := range m.Engines {
		for to, other := range m.Engines {
			if out, in := e.Sent()[to], other.Received()[from]; out != in {
				return fmt.Errorf("rank %d has received %d bytes of %d from rank %d", to, in, out, from)
			}
		}
	}
	return nil
}

// check looks for two mistakes. Messages may be added only to the cell that was filled last, else
// they would overtake others. Nothing else may be on its way to that peer, and a flush must be due,
// which closes the cell. A rank that sleeps although a message is there must be woken by such a
// flush, as nothing else would wake it.
func (m *matching) check(r *rapid.T) {
	for from, a := range m.Modules {
		for to, b := range m.Modules {
			if from == to {
				continue
			}
			p := &a.peers[to]
			if o := &p.out; o.open.Size != 0 && (!p.dirty || p.down || o.busy || o.full || o.open.Word != &o.cells[(o.tail-1)&o.mask].word) {
				r.Fatalf("rank %d may add to what it has sent to rank %d, of which %d cells are filled: %+v", from, to, o.tail, o.open)
			}
			if *b.word&bellArmed != 0 && !p.dirty && slices.ContainsFunc(b.spots, func(s spot) bool { return int(s.peer) == from && s.news() }) {
				r.Fatalf("rank %d sleeps, and rank %d has sent", to, from)
			}
		}
	}
}

// finish receives what is left, and takes back receives for which nothing is.
func (m *matching) finish(r *rapid.T) {
	for tries := 0; m.ended < 2*len(m.sent); tries++ {
		if tries > 2000 {
			r.Fatalf("of %d messages not all arrive: rank 0 has %q", len(m.sent), m.Engines[0].Pending())
		}
		for at, e := range m.Engines {
			e.Progress()
			m.probe(r, at, 1)
			m.probe(r, at, 2)
		}
		m.test(r)
	}
	need(r, m.differ())
	for _, v := range m.posted {
		m.withdraw(r, v)
	}
	if m.test(r); slices.ContainsFunc(m.begun, func(o *operation) bool { return !o.over }) {
		r.Fatal("all messages are received, other receives canceled, and something is not over")
	}
}

// probe receives what no receive was posted for.
func (m *matching) probe(r *rapid.T, at int, ctx uint64) {
	for {
		status, ok, err := m.Engines[at].Iprobe(engine.AnySource, ctx, engine.AnyTag)
		need(r, err)
		if !ok {
			return
		}
		m.receive(r, at, status.Source, envelope{ctx, int32(status.Tag), nil}, status.Bytes)
	}
}

// assign finds out which message each receive got. It begins with those whose number is in the
// buffer. Of the rest, messages that look alike are as good as one another, but for their order.
// Error and payload must be those of the message.
func (m *matching) assign(r *rapid.T, numbers bool) {
	for _, v := range m.posted {
		st := v.status
		known := min(len(v.buf), st.Bytes) >= 2 && !errors.Is(v.err, engine.ErrType)
		if errors.Is(v.err, engine.ErrCanceled) || known != numbers {
			continue
		}
		i := slices.IndexFunc(m.sent, func(x *message) bool {
			return x.by == nil && v.fits(x) && x.rank == st.Source && int(x.tag) == st.Tag && len(x.payload) == st.Bytes && x.typ.ID == st.Type &&
				(!numbers || uint16(x.number) == binary.NativeEndian.Uint16(v.buf))
		})
		if i < 0 {
			r.Fatalf("receive %d got what was not sent, or not to it, or twice: %+v, %v", v.order, st, v.err)
		}
		x := m.sent[i]
		need(r, x.err)
		k := min(len(v.buf), len(x.payload))
		var want error
		switch {
		case v.typ != nil && v.typ != x.typ:
			want = engine.ErrType
		case k < len(x.payload):
			want = engine.ErrTruncate
		}
		if !errors.Is(v.err, want) || want != engine.ErrType && string(v.buf[:k]) != string(x.payload[:k]) {
			r.Fatalf("receive %d of %d bytes ended with %v, not %v, or the payload differs: %+v", v.order, len(v.buf), v.err, want, st)
		}
		x.by = v
	}
}

// inOrder checks that no message overtook another: an earlier message of the same rank and context
// that fits the receive as well went to a receive posted before.
func (m *matching) inOrder(r *rapid.T) {
	for _, x := range m.sent {
		for _, y := range m.sent {
			if x.rank == y.rank && x.to == y.to && x.number < y.number && y.by.fits(x) && x.by.order > y.by.order {
				r.Fatalf("message %d from rank %d to rank %d, of %d bytes, was overtaken by message %d: it went to receive %d, not %d",
					x.number, x.rank, x.to, len(x.payload), y.number, x.by.order, y.by.order)
			}
		}
	}
}
