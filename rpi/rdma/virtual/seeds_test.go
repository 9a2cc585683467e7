package virtual_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/soft"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// A world is some ranks in one goroutine, each with a Device over soft, that send one another messages of all kinds. At a random moment a
// checkpoint is taken. Then all go on, or are killed and go on from the image over another network, or go on for a
// while, are killed, and do again what they did since. Every message is to arrive once, in order, with its bytes, and every signalled
// request is to complete once, in order.

const (
	memorySize = 1 << 12
	sendArea   = 0       // slots of outgoing messages
	recvArea   = 1 << 10 // slots of receives
	writeArea  = 2 << 10 // slots that peers write to
	readArea   = 3 << 10 // what peers read; never changes
	slotSize   = 64
	slotsOf    = 1 << 10 / slotSize
)

type world struct {
	t     *testing.T
	rng   *rand.Rand
	net   provider.Provider
	ranks []*rank
	made  map[virtual.ID]bool // in this history
	steps int
}

// rank is a process. What is exported is in its image; the Device has one of its own.
type rank struct {
	w      *world
	dev    *virtual.Device
	memory []byte
	s      saved
}

type saved struct {
	ID                            int
	Domain, Queue, Shared, Region virtual.ID
	Theirs                        []virtual.RemoteRegion // by rank
	Ends                          []end                  // by rank
	Receives                      int                    // posted to the shared queue
	Taken                         [slotsOf]bool          // slots of receives
}

// end is a connection's, as the program sees it.
type end struct {
	Pair     virtual.ID
	Requests uint64 // posted
	Waiting  []wait // signalled ones that have not completed
	Held     []int  // requests since the last completed one, with their slots
	Sent     uint64 // messages
	Got      uint64
	Written  uint64 // slots of the peer that were written
	Seen     uint64 // and that the peer has told of: kept at the receiver
	Posted   int    // receives of its own
	Busy     [slotsOf]bool
	Over     uint64
}

// wait is a signalled request.
type wait struct {
	ID   uint64
	Read int // slot that is read into, -1: none
	From int // where the peer has it
	Len  int
}

func (s *saved) clone() saved {
	c := *s
	c.Theirs, c.Ends = slices.Clone(s.Theirs), slices.Clone(s.Ends)
	for i := range c.Ends {
		c.Ends[i].Waiting, c.Ends[i].Held = slices.Clone(s.Ends[i].Waiting), slices.Clone(s.Ends[i].Held)
	}
	return c
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) fresh(id virtual.ID, err error) virtual.ID {
	w.t.Helper()
	w.check(err)
	if w.made[id] {
		w.t.Fatalf("%s is made twice", id)
	}
	w.made[id] = true
	return id
}

// more makes something of a rank: its ID is none that was ever given, in whatever life.
func (w *world) more(r *rank) {
	switch w.rng.IntN(8) {
	case 0:
		w.fresh(r.dev.NewDomain())
	case 1:
		w.fresh(r.dev.NewQueue(8))
	case 2:
		w.fresh(r.dev.NewShared(r.s.Domain, 4, 1))
	case 3:
		id := w.fresh(r.dev.NewPair(r.s.Domain, virtual.PairConfig{Send: r.s.Queue, Receive: r.s.Queue, SendDepth: 2, ReceiveDepth: 2}))
		if w.rng.IntN(2) == 0 {
			w.check(r.dev.Close(id))
		}
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), made: map[virtual.ID]bool{}}
	w.net = w.network()
	n := 2 + w.rng.IntN(2)
	shared := w.rng.IntN(2) == 0
	for id := range n {
		real, err := w.net.Open("")
		w.check(err)
		r := &rank{w: w, dev: virtual.NewDevice(id, real), memory: make([]byte, memorySize)}
		r.s.ID = id
		fill(r.memory[readArea:], uint64(id), 99)
		w.ranks = append(w.ranks, r)
		r.s.Domain = w.fresh(r.dev.NewDomain())
		r.s.Queue = w.fresh(r.dev.NewQueue(256))
		if shared {
			r.s.Shared = w.fresh(r.dev.NewShared(r.s.Domain, slotsOf, 2))
		}
		r.s.Region = w.fresh(r.dev.Register(r.s.Domain, r.memory, provider.LocalWrite|provider.RemoteRead|provider.RemoteWrite))
		r.s.Ends, r.s.Theirs = make([]end, n), make([]virtual.RemoteRegion, n)
		for peer := range n {
			if peer != id {
				r.s.Ends[peer].Pair = w.fresh(r.dev.NewPair(r.s.Domain, virtual.PairConfig{Send: r.s.Queue, Receive: r.s.Queue, Shared: r.s.Shared,
					SendDepth: 6, ReceiveDepth: 4, Segments: 2, Inline: 32}))
			}
		}
	}
	for _, r := range w.ranks {
		for _, o := range w.ranks {
			if o == r {
				continue
			}
			theirs, err := o.dev.Pair(o.s.Ends[r.s.ID].Pair)
			w.check(err)
			w.check(r.dev.Connect(r.s.Ends[o.s.ID].Pair, provider.RemoteRead|provider.RemoteWrite, theirs))
			r.s.Theirs[o.s.ID], err = o.dev.Region(o.s.Region)
			w.check(err)
		}
	}
	return w
}

// network is another one each time.
func (w *world) network() provider.Provider {
	f := soft.Faults{MTU: 16 + w.rng.IntN(100)}
	if w.rng.IntN(3) > 0 {
		f = soft.Faults{Lost: w.rng.IntN(20), Twice: w.rng.IntN(20), Late: w.rng.IntN(40), Overtaken: w.rng.IntN(40), Completions: w.rng.IntN(80), Order: true, MTU: f.MTU}
	}
	return soft.NewFabric(w.rng.Uint64(), f)
}

// fill is what a message or a slot of that number has.
func fill(p []byte, from, number uint64) {
	x := from*0x9e3779b97f4a7c15 + number*0xd1342543de82ef95 + 1
	for i := range p {
		x = x*6364136223846793005 + 1442695040888963407
		p[i] = byte(x >> 56)
	}
}

// A message begins with its number (u32) and how many slots were written before it (u32). A message without room for both is
// one of an immediate value alone, which is its number.

func lengthOf(from, number uint64) int {
	var b [2]byte
	fill(b[:], from, number^0x5555)
	return 8 + int(b[0])%(slotSize-8)
}

// free returns a slot of the end's area that no request has, -1 if none.
func (e *end) free(me, peer, n int) int {
	share := slotsOf / n
	for i := peer * share; i < (peer+1)*share; i++ {
		if !e.Busy[i] {
			return i
		}
	}
	return -1
}

// post posts one request of a random kind to a peer, if there is room.
func (r *rank) post(peer int) {
	w, e := r.w, &r.s.Ends[peer]
	q := virtual.Request{ID: e.Requests}
	if w.rng.IntN(3) == 0 {
		q.Flags = provider.Signalled
	}
	slot := e.free(r.s.ID, peer, len(w.ranks))
	if slot < 0 {
		return
	}
	at := sendArea + slot*slotSize
	uses := true
	wt := wait{ID: q.ID, Read: -1}
	q.Opcode = provider.Opcode(w.rng.IntN(5))
	theirs := &w.ranks[peer].s.Ends[r.s.ID]
	share := slotsOf / len(w.ranks)
	message := false
	switch q.Opcode {
	case provider.Send, provider.SendImmediate:
		message = true
		n := lengthOf(uint64(r.s.ID), e.Sent)
		p := r.memory[at : at+n]
		fill(p, uint64(r.s.ID), e.Sent)
		binary.LittleEndian.PutUint32(p, uint32(e.Sent))
		binary.LittleEndian.PutUint32(p[4:], uint32(e.Written))
		q.Immediate = uint32(e.Sent)
		if n <= 32 && w.rng.IntN(2) == 0 {
			q.Flags |= provider.Inline
			q.Data = slices.Clone(p)
			clear(p)
			uses = false
		} else {
			cut := w.rng.IntN(n + 1)
			q.Segments = []virtual.Segment{{Region: r.s.Region, Off: at, Len: cut}, {Region: r.s.Region, Off: at + cut, Len: n - cut}}
		}
	case provider.Write, provider.WriteImmediate:
		message = q.Opcode == provider.WriteImmediate
		if e.Written-theirs.Seen >= uint64(share) { // the peer has not looked at the slot yet
			return
		}
		fill(r.memory[at:at+slotSize], uint64(r.s.ID)+100, e.Written)
		q.Segments = []virtual.Segment{{Region: r.s.Region, Off: at, Len: slotSize}}
		q.Remote, q.Off = r.s.Theirs[peer], uint64(writeArea+(r.s.ID*share+int(e.Written%uint64(share)))*slotSize)
		q.Immediate = uint32(e.Sent)
		if !message && w.rng.IntN(4) == 0 { // of nothing, to nowhere
			q.Segments, q.Remote, q.Off, uses = nil, virtual.RemoteRegion{}, 0, false
		}
	case provider.Read:
		wt.Read, wt.Len = slot, 1+w.rng.IntN(slotSize)
		wt.From = w.rng.IntN(1<<10 - wt.Len)
		q.Flags |= provider.Signalled
		clear(r.memory[at : at+slotSize])
		q.Segments = []virtual.Segment{{Region: r.s.Region, Off: at, Len: wt.Len}}
		q.Remote, q.Off = r.s.Theirs[peer], uint64(readArea+wt.From)
	}
	n, err := r.dev.Send(e.Pair, []virtual.Request{q})
	if n == 0 {
		if w.rng.IntN(1000) == 0 {
			w.t.Logf("not posted: %v", err)
		}
		return
	}
	w.check(err)
	e.Requests++
	if message {
		e.Sent++
	}
	if q.Opcode == provider.Write || q.Opcode == provider.WriteImmediate {
		if len(q.Segments) > 0 {
			e.Written++
		}
	}
	held := -1
	if uses {
		e.Busy[slot] = true
		held = slot
	}
	e.Held = append(e.Held, held)
	if q.Flags&provider.Signalled != 0 {
		e.Waiting = append(e.Waiting, wt)
	}
}

// receive posts a receive.
func (r *rank) receive(peer int) {
	w := r.w
	slot := slices.Index(r.s.Taken[:], false)
	if slot < 0 {
		return
	}
	at := recvArea + slot*slotSize
	cut := w.rng.IntN(slotSize + 1)
	q := virtual.Receive{ID: uint64(slot), Segments: []virtual.Segment{{Region: r.s.Region, Off: at, Len: cut}, {Region: r.s.Region, Off: at + cut, Len: slotSize - cut}}}
	to := r.s.Shared
	if to == 0 {
		to = r.s.Ends[peer].Pair
	}
	if n, _ := r.dev.Receive(to, []virtual.Receive{q}); n == 1 {
		r.s.Taken[slot] = true
	}
}

// poll takes completions and checks them.
func (r *rank) poll() {
	var found [3]virtual.Completion
	n, err := r.dev.Poll(r.s.Queue, found[:1+r.w.rng.IntN(3)])
	r.w.check(err)
	for i := range found[:n] {
		r.completed(&found[i])
	}
}

func (r *rank) completed(c *virtual.Completion) {
	t := r.w.t
	peer := slices.IndexFunc(r.s.Ends, func(e end) bool { return e.Pair == c.Pair })
	if peer < 0 || c.Status != provider.Success {
		t.Fatalf("rank %d: %+v", r.s.ID, *c)
	}
	e := &r.s.Ends[peer]
	if c.Opcode >= provider.Receive {
		r.message(peer, e, c)
		return
	}
	if len(e.Waiting) == 0 || e.Waiting[0].ID != c.ID {
		t.Fatalf("rank %d: %s has completed request %d; %+v are waiting", r.s.ID, e.Pair, c.ID, e.Waiting)
	}
	if wt := e.Waiting[0]; wt.Read >= 0 {
		want := make([]byte, 1<<10)
		fill(want, uint64(peer), 99)
		if got := r.memory[sendArea+wt.Read*slotSize:][:wt.Len]; !bytes.Equal(got, want[wt.From:][:wt.Len]) {
			t.Fatalf("rank %d: a read of rank %d has other bytes", r.s.ID, peer)
		}
	}
	e.Waiting = e.Waiting[1:]
	for ; e.Over <= c.ID; e.Over++ {
		if slot := e.Held[0]; slot >= 0 {
			e.Busy[slot] = false
		}
		e.Held = e.Held[1:]
	}
}

// message checks what has arrived.
func (r *rank) message(peer int, e *end, c *virtual.Completion) {
	t := r.w.t
	slot := int(c.ID)
	if !r.s.Taken[slot] {
		t.Fatalf("rank %d: receive %d completes twice", r.s.ID, slot)
	}
	r.s.Taken[slot] = false
	if c.HasImmediate && c.Immediate != uint32(e.Got) {
		t.Fatalf("rank %d: message %d of rank %d has come instead of %d", r.s.ID, c.Immediate, peer, e.Got)
	}
	written := uint32(e.Seen)
	if c.Opcode == provider.ReceiveWrite {
		written++
	} else {
		n := lengthOf(uint64(peer), e.Got)
		got := r.memory[recvArea+slot*slotSize:][:slotSize]
		want := make([]byte, n)
		fill(want, uint64(peer), e.Got)
		written = binary.LittleEndian.Uint32(got[4:])
		if number := binary.LittleEndian.Uint32(got); number != uint32(e.Got) || c.Bytes != n || !bytes.Equal(got[8:n], want[8:]) {
			t.Fatalf("rank %d: message %d of rank %d (%d bytes) has come instead of %d (%d), or its bytes differ", r.s.ID, number, peer, c.Bytes, e.Got, n)
		}
	}
	share := slotsOf / len(r.w.ranks)
	for ; uint32(e.Seen) < written; e.Seen++ {
		var want [slotSize]byte
		fill(want[:], uint64(peer)+100, e.Seen)
		if got := r.memory[writeArea+(peer*share+int(e.Seen%uint64(share)))*slotSize:][:slotSize]; !bytes.Equal(got, want[:]) {
			t.Fatalf("rank %d: write %d of rank %d is not there, or too much is", r.s.ID, e.Seen, peer)
		}
	}
	e.Got++
}

// step does one thing.
func (w *world) step(post bool) {
	r := w.ranks[w.rng.IntN(len(w.ranks))]
	peer := (r.s.ID + 1 + w.rng.IntN(len(w.ranks)-1)) % len(w.ranks)
	switch k := w.rng.IntN(4); {
	case k == 0 && post:
		r.post(peer)
	case k == 1:
		r.receive(peer)
	default:
		r.poll()
	}
}

// quiet takes all ranks to where they can be imaged. Counts are told in any order, and again.
func (w *world) quiet() {
	for _, i := range w.rng.Perm(len(w.ranks)) {
		w.ranks[i].dev.Quiesce()
		for range w.rng.IntN(20) { // the others go on
			w.step(true)
		}
	}
	for turn := 0; ; turn++ {
		if turn > 100000 {
			w.t.Fatal("the layer never gets quiet")
		}
		all := true
		for _, i := range w.rng.Perm(len(w.ranks)) {
			quiet, err := w.ranks[i].dev.Quiet()
			w.check(err)
			all = all && quiet
		}
		for _, r := range w.ranks {
			counts := r.dev.Counts()
			for _, o := range w.ranks {
				if o != r && w.rng.IntN(3) > 0 {
					o.dev.Tell(r.s.ID, slices.DeleteFunc(slices.Clone(counts), func(c virtual.Count) bool { return c.To.Rank() != o.s.ID }))
				}
			}
		}
		if all {
			return
		}
	}
}

// image is what is kept of a rank.
type image struct {
	s             saved
	layer, memory []byte
}

func (w *world) images() (list []image) {
	for _, r := range w.ranks {
		layer, err := r.dev.MarshalBinary()
		w.check(err)
		list = append(list, image{r.s.clone(), layer, slices.Clone(r.memory)})
	}
	return list
}

// restart kills all ranks and goes on from images, in memory that is elsewhere, over another network.
func (w *world) restart(from []image) {
	w.net = w.network()
	for i, r := range w.ranks {
		w.check(r.dev.Real().Close())
		n := &rank{w: w, memory: slices.Clone(from[i].memory), s: from[i].s.clone()}
		var err error
		n.dev, err = virtual.Load(from[i].layer, func(virtual.ID) []byte { return n.memory })
		w.check(err)
		real, err := w.net.Open("")
		w.check(err)
		w.check(n.dev.Restart(real))
		w.ranks[i] = n
	}
	for _, r := range w.ranks {
		for _, o := range w.ranks {
			r.dev.Learn(o.dev.Book())
		}
	}
	for _, i := range w.rng.Perm(len(w.ranks)) {
		w.check(w.ranks[i].dev.Resume())
	}
}

// finish has all that was posted arrive.
func (w *world) finish() {
	for turn := 0; ; turn++ {
		over := true
		for _, r := range w.ranks {
			for peer := range w.ranks {
				e := &r.s.Ends[peer]
				over = over && len(e.Waiting) == 0 && e.Got == w.ranks[peer].s.Ends[r.s.ID].Sent
			}
		}
		if over {
			return
		}
		if turn > 200000 {
			for _, r := range w.ranks {
				w.t.Logf("rank %d: %+v", r.s.ID, r.s.Ends)
			}
			w.t.Fatal("something is lost")
		}
		w.step(false)
	}
}

func play(t *testing.T, seed uint64) {
	w := newWorld(t, seed)
	defer func() {
		for _, r := range w.ranks {
			_ = r.dev.Real().Close()
		}
	}()
	for range 1 + w.rng.IntN(4) {
		for range w.rng.IntN(300) {
			w.step(true)
		}
		w.quiet()
		images := w.images()
		switch w.rng.IntN(3) {
		case 0:
			for _, r := range w.ranks {
				r.dev.Continue()
			}
		case 1:
			for _, r := range w.ranks {
				r.dev.Continue()
			}
			for range w.rng.IntN(300) {
				w.step(true)
			}
			w.restart(images)
		default:
			w.restart(images)
		}
		for _, r := range w.ranks {
			w.more(r)
		}
	}
	w.finish()
}

// TestSeeds takes checkpoints in the middle of traffic. GORUN_RDMA_SEEDS tells how many seeds are played, or "=N" which one.
func TestSeeds(t *testing.T) {
	first, n := 0, 40
	if s := os.Getenv("GORUN_RDMA_SEEDS"); s != "" {
		var err error
		if s[0] == '=' {
			first, err = strconv.Atoi(s[1:])
			n = 1
		} else {
			n, err = strconv.Atoi(s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for seed := first; seed < first+n; seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, uint64(seed)) }) {
			t.Fatalf("again with GORUN_RDMA_SEEDS==%d", seed)
		}
	}
}
