package mirror

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/mirror/internal/machine"
	"github.com/gorun-mpi/gorun/internal/erasure"
	"github.com/gorun-mpi/gorun/internal/shelf"
)

// keep is what a process has of a description, from one life to the next. It drives the machine.
type keep struct {
	w    *World
	name string

	mu      sync.Mutex
	opt     Options
	m       *machine.Machine
	st      *storage
	plan    *machine.Plan
	pieces  map[machine.Name]*piece
	life    uint32   // of the world, that it has entered
	early   []letter // of a life that it has not entered yet
	changed chan struct{}
	working int  // goroutines that use pieces
	waiting bool // Restore was called and is not answered
	resume  *machine.Resume
	refused string
	begun   time.Time // of the epoch in progress
	stats   Stats
}

// receive takes a message.
func (k *keep) receive(l letter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil || k.life != l.life {
		k.early = append(k.early, l)
		return
	}
	k.take(l)
}

// take gives a message to the machine. Caller holds mu.
func (k *keep) take(l letter) {
	actions, err := k.m.Receive(l.peer, *l.head.Msg)
	if err != nil {
		return // of a rank that was told otherwise meanwhile
	}
	if l.head.Msg.Kind == machine.Decide {
		life, from := k.m.Life()
		if err := k.st.tell(told{life, from, from}, true); err != nil {
			actions = k.m.Cannot(err.Error())
		}
	}
	k.do(actions)
}

// do carries out what the machine wants. Caller holds mu.
func (k *keep) do(actions []machine.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case machine.Send:
			k.w.send(k.life, a.To, &head{To: k.name, Is: isMsg, Msg: &a.Msg})
		case machine.Look:
			k.spawn(k.look)
		case machine.Make:
			k.spawn(func() { k.make(a) })
		case machine.Resume:
			k.resume, k.waiting = &a, false
		case machine.Refused:
			k.refused, k.waiting = a.Text, false
		case machine.Completed:
			k.completed(a)
		case machine.Forget:
			if p := k.pieces[a.Name]; p != nil {
				k.st.forget(p)
				delete(k.pieces, a.Name)
			}
		}
	}
	k.wake()
}

// spawn runs f beside. Caller holds mu.
func (k *keep) spawn(f func()) {
	k.working++
	go func() {
		f()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.working--
		k.wake()
	}()
}

// idle waits until nothing of an earlier life or epoch is at work. Caller holds mu, which is released meanwhile.
func (k *keep) idle() {
	for k.working > 0 {
		k.wait(context.Background())
	}
}

// wait waits for a change, or for ctx. Caller holds mu, which is released meanwhile.
func (k *keep) wait(ctx context.Context) {
	changed := k.changed
	k.mu.Unlock()
	select {
	case <-changed:
	case <-ctx.Done():
	}
	k.mu.Lock()
}

// wake wakes those who wait for a change. Caller holds mu.
func (k *keep) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// completed notes an epoch. That a folder does not say so is no error: the next census finds it.
func (k *keep) completed(a machine.Completed) {
	life, from := k.m.Life()
	k.st.tell(told{life, from, a.Cut}, false)
	k.stats.complete(time.Since(k.begun), a.Times)
}

// fail gives an epoch up, on all ranks.
func (k *keep) fail(c shelf.Cut, err error) {
	if k.w.over() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.do(k.m.Fail(c, err.Error()))
}

// behind sends the own image to its holders, while the program goes on.
func (k *keep) behind(ctx context.Context, life uint32, c, done shelf.Cut, p *piece, i int, size int64) {
	began := time.Now()
	image := p.slots[i].room[:size]
	sums := newSums(image)
	errs := make(chan error)
	targets := k.plan.Targets(k.rank())
	for _, t := range targets {
		go func() { errs <- k.stream(ctx, life, c, done, t, image, sums) }()
	}
	all := sums.all()
	var err error
	for range targets {
		if e := <-errs; e != nil {
			err = e
		}
	}
	sent := time.Since(began)
	if err == nil {
		k.mu.Lock()
		p.slots[i].meta = meta{Size: size, Sums: all}
		k.mu.Unlock()
		err = k.st.persist(p, i)
	}
	if err != nil {
		k.fail(c, err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.send(sent, time.Since(began)-sent, size*int64(len(targets)))
	k.m.Tell(k.stats.times())
	if actions, err := k.m.Add(p.name, c, 0); err == nil {
		k.do(actions)
	}
}

// stream sends an image to one holder.
func (k *keep) stream(ctx context.Context, life uint32, c, done shelf.Cut, t machine.Target, image []byte, sums *sums) error {
	size := int64(len(image))
	return blocks(size, func(i int, off, n int64) error {
		h := head{To: k.name, Is: isPart, Name: t.Name, Part: t.Part, Cut: c, Done: done, Size: size, Off: off, Sum: sums.of(i)}
		return k.w.t.Put(ctx, life, t.To, h.encode(), image[off:off+n])
	})
}

// sums computes the sum of each block once, whoever needs it first.
type sums struct {
	image []byte
	once  []sync.Once
	sum   []uint32
}

func newSums(image []byte) *sums {
	n := max(1, (len(image)+blockSize-1)/blockSize)
	return &sums{image, make([]sync.Once, n), make([]uint32, n)}
}

func (s *sums) of(i int) uint32 {
	s.once[i].Do(func() { s.sum[i] = sum(s.image[i*blockSize : min(len(s.image), (i+1)*blockSize)]) })
	return s.sum[i]
}

func (s *sums) all() []uint32 {
	for i := range s.once {
		s.of(i)
	}
	return s.sum
}

// scratch is blocks on their way into a parity.
var scratch = sync.Pool{New: func() any { b := make([]byte, blockSize); return &b }}

// part takes a block of an image that this rank holds, or holds a parity of.
func (k *keep) part(life uint32, h *head) ([]byte, func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	nothing := func() {}
	if k.m == nil || k.life != life {
		return nil, nothing
	}
	i, first, err := k.m.Part(h.Name, h.Cut, h.Done)
	if err != nil {
		return nil, nothing // of an epoch that was given up
	}
	p := k.piece(h.Name)
	members := len(h.Name.Members())
	if first {
		err = k.st.begin(p, i, h.Cut, members)
		if h.Name.Parity > 0 {
			clear(p.slots[i].room) // it is added up
		}
		p.slots[i].meta.Parts = make([]meta, members)
	}
	sl := &p.slots[i]
	if sl.cut != h.Cut || sl.got == nil {
		return nil, nothing
	}
	m := &sl.meta.Parts[h.Part]
	if m.Sums == nil {
		*m = meta{Size: h.Size, Sums: make([]uint32, max(1, (h.Size+blockSize-1)/blockSize))}
		if err == nil {
			err = k.st.widen(p, i, h.Size)
		}
	}
	if err == nil && m.Size != h.Size {
		err = fmt.Errorf("%v comes with two sizes", h.Name)
	}
	if err != nil {
		k.do(k.m.Fail(h.Cut, err.Error()))
		return nil, nothing
	}
	if h.Name.Parity == 0 {
		b := sl.room[h.Off : h.Off+min(blockSize, h.Size-h.Off)]
		return b, func() { k.arrived(p, i, h, b) }
	}
	buf := scratch.Get().(*[]byte)
	b := (*buf)[:min(blockSize, h.Size-h.Off)]
	return b, func() { k.arrived(p, i, h, b); scratch.Put(buf) }
}

// arrived takes a block that is there.
func (k *keep) arrived(p *piece, i int, h *head, b []byte) {
	good := sum(b) == h.Sum
	k.mu.Lock()
	defer k.mu.Unlock()
	sl := &p.slots[i]
	if sl.cut != h.Cut {
		return
	}
	if !good {
		k.do(k.m.Fail(h.Cut, fmt.Sprintf("a block of %v was damaged on its way", h.Name)))
		return
	}
	if h.Name.Parity > 0 {
		code, err := k.code(h.Name)
		if err != nil {
			k.do(k.m.Fail(h.Cut, err.Error()))
			return
		}
		code.Add(h.Name.Parity-1, h.Part, sl.room[h.Off:], b)
	}
	m := &sl.meta.Parts[h.Part]
	m.Sums[h.Off/blockSize] = h.Sum
	if sl.got[h.Part] += int64(len(b)); sl.got[h.Part] < m.Size {
		return
	}
	if k.m.Missing(h.Name, h.Cut) == 1 {
		k.spawn(func() { k.whole(p, i, h) })
		return
	}
	if _, err := k.m.Add(h.Name, h.Cut, h.Part); err != nil {
		k.do(k.m.Fail(h.Cut, err.Error()))
	}
}

// whole finishes a piece all of whose parts are there.
func (k *keep) whole(p *piece, i int, h *head) {
	sl := &p.slots[i]
	finish(p.name, sl)
	err := k.st.persist(p, i)
	if err != nil {
		k.fail(h.Cut, err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if actions, err := k.m.Add(h.Name, h.Cut, h.Part); err == nil {
		k.do(actions)
	}
}

// finish describes a piece by its parts.
func finish(n machine.Name, sl *slot) {
	if n.Parity == 0 {
		sl.meta = sl.meta.Parts[0]
		return
	}
	for _, p := range sl.meta.Parts {
		sl.meta.Size = max(sl.meta.Size, p.Size)
	}
	sl.meta.Sums = newSums(sl.room[:sl.meta.Size]).all()
}

// code is that of a group: as many images as the piece has members, as many shards as the policy gives.
func (k *keep) code(n machine.Name) (*erasure.Code, error) {
	parity := n.Parity
	for _, g := range k.plan.Groups {
		for _, piece := range g.Pieces {
			if piece.Of == n.Of {
				parity = max(parity, piece.Parity)
			}
		}
	}
	return codeOf(len(n.Members()), parity)
}

var codes sync.Map // [2]int: *erasure.Code

func codeOf(data, parity int) (*erasure.Code, error) {
	if c, there := codes.Load([2]int{data, parity}); there {
		return c.(*erasure.Code), nil
	}
	c, err := erasure.New(data, parity)
	if err == nil {
		codes.Store([2]int{data, parity}, c)
	}
	return c, err
}

// piece returns a piece, made on first use. Caller holds mu.
func (k *keep) piece(n machine.Name) *piece {
	p := k.pieces[n]
	if p == nil {
		p = &piece{name: n}
		k.pieces[n] = p
	}
	return p
}

func (k *keep) rank() int { return k.w.now().Rank }

func (k *keep) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.idle()
	if k.st != nil {
		k.st.close(k.pieces)
	}
	k.wake()
}
