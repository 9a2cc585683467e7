package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/mirror/internal/machine"
	"github.com/gorun-mpi/gorun/internal/storage/erasure"
	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
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
	removed turn     // it was removed so many times in that life
	early   []letter // of a life, or a turn, that it has not entered yet
	changed chan struct{}
	working int  // goroutines that use pieces
	waiting bool // Restore was called and is not answered
	resume  *machine.Resume
	refused string
	begun   time.Time // of the epoch in progress
	stats   Stats
}

// turn counts how often a description was removed in a life. Ranks do that at different times, and may open it again under the same name.
type turn struct{ life, number uint32 }

// turn is the present one. Caller holds mu.
func (k *keep) turn() uint32 {
	if k.removed.life != k.life {
		return 0
	}
	return k.removed.number
}

// here reports whether something that was sent is of the description as it is here. Caller holds mu.
func (k *keep) here(life uint32, h *head) bool {
	return k.m != nil && k.life == life && k.turn() == h.Turn
}

// receive takes a message.
func (k *keep) receive(l letter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.here(l.life, l.head) {
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
			k.w.send(k.life, a.To, &head{To: k.name, Turn: k.turn(), Is: isMsg, Msg: &a.Msg})
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

// wake wakes goroutines that wait for a change. Caller holds mu.
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
func (k *keep) fail(c twoslots.Cut, err error) {
	if k.w.over() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.do(k.m.Fail(c, err.Error()))
}

// behind sends the own image to its holders, while the program goes on.
func (k *keep) behind(ctx context.Context, life, turn uint32, c, done twoslots.Cut, p *piece, i int, o *outgoing) {
	began := time.Now()
	targets := k.plan.Targets(k.rank())
	errs, sent := make([]error, len(targets)), make([]int64, len(targets))
	var wait sync.WaitGroup
	for n, t := range targets {
		wait.Go(func() { sent[n], errs[n] = k.stream(ctx, life, turn, c, done, t, o) })
	}
	all := o.all()
	wait.Wait()
	took := time.Since(began)
	err := errors.Join(errs...)
	if err == nil {
		k.mu.Lock()
		p.slots[i].meta = meta{Size: int64(len(o.image)), Sums: all}
		sl := p.slots[i]
		k.mu.Unlock()
		err = k.st.persist(p, i, sl)
	}
	if err != nil {
		k.fail(c, err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.send(took, time.Since(began)-took, sent)
	k.m.Tell(k.stats.times())
	if actions, err := k.m.Add(p.name, c, 0); err == nil {
		k.do(actions)
	}
}

// scratch is blocks on their way into a parity.
var scratch = sync.Pool{New: func() any { b := make([]byte, blockSize); return &b }}

// open finds the slot that a part goes to, made ready for the epoch by whichever block comes first. Caller holds mu.
func (k *keep) open(life uint32, h *head) (p *piece, i int, ok bool) {
	if !k.here(life, h) {
		return nil, 0, false
	}
	i, first, err := k.m.Part(h.Name, h.Cut, h.Done)
	if err != nil {
		return nil, 0, false // of an epoch that was given up
	}
	p = k.piece(h.Name)
	sl := &p.slots[i]
	if first {
		err = k.ready(p, i, h)
	}
	if err == nil && (sl.cut != h.Cut || sl.got == nil) {
		return nil, 0, false
	}
	if err == nil {
		err = k.enlarge(p, i, h)
	}
	if err != nil {
		k.giveUp(h, err)
	}
	return p, i, err == nil
}

// ready makes a slot ready for an epoch. Caller holds mu.
func (k *keep) ready(p *piece, i int, h *head) error {
	members := len(h.Name.Members())
	if err := k.st.begin(p, i, h.Cut, members); err != nil {
		return err
	}
	sl := &p.slots[i]
	sl.meta.Parts = make([]meta, members)
	if !h.Base {
		if h.Name.Parity > 0 {
			clear(sl.room) // it is added up
		}
		return nil
	}
	at, has := k.m.Told(h.Name, h.Done)
	if base := &p.slots[at]; has && (h.Name.Parity == 0 || len(base.meta.Parts) == members) {
		sl.base = base
		return nil
	}
	return fmt.Errorf("%v: it is told by %v, which is not here", h.Name, h.Done)
}

// enlarge makes room for a part whose first block has come. Caller holds mu.
func (k *keep) enlarge(p *piece, i int, h *head) error {
	sl := &p.slots[i]
	m := &sl.meta.Parts[h.Part]
	if (sl.base != nil) != h.Base {
		return fmt.Errorf("%v: its parts are told by different epochs", h.Name)
	}
	if m.Sums != nil {
		if m.Size != h.Size || h.length() > sl.reach || h.Base && int64(len(sl.there))*blockSize < h.length() {
			return fmt.Errorf("%v comes with two sizes", h.Name)
		}
		return nil
	}
	*m = meta{Size: h.Size, Sums: make([]uint32, max(1, (h.Size+blockSize-1)/blockSize))}
	most := h.length()
	if h.Base {
		most = max(most, sl.base.meta.Size)
	}
	if err := k.st.widen(p, i, most); err != nil {
		return err
	}
	for h.Base && int64(len(sl.there))*blockSize < max(1, h.length()) { // an empty image is one empty block
		sl.there = append(sl.there, false)
	}
	return nil
}

// giveUp gives up the epoch that a block is of. Caller holds mu.
func (k *keep) giveUp(h *head, err error) { k.do(k.m.Fail(h.Cut, err.Error())) }

// part takes a block of an image that this rank holds, or holds a parity of.
func (k *keep) part(life uint32, h *head) ([]byte, func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, i, ok := k.open(life, h)
	if !ok {
		return nil, func() {}
	}
	n := min(blockSize, h.length()-h.Off)
	if h.Name.Parity == 0 {
		b := p.slots[i].room[h.Off : h.Off+n]
		return b, func() { k.arrived(p, i, h, b) }
	}
	buf := scratch.Get().(*[]byte)
	b := (*buf)[:n]
	return b, func() { k.arrived(p, i, h, b); scratch.Put(buf) }
}

// arrived takes a block that is there.
func (k *keep) arrived(p *piece, i int, h *head, b []byte) {
	good := checksum(b) == h.Sum
	k.mu.Lock()
	defer k.mu.Unlock()
	sl := &p.slots[i]
	if sl.cut != h.Cut {
		return
	}
	var err error
	n, mine := int(h.Off/blockSize), h.Sum
	switch {
	case !good:
		err = fmt.Errorf("a block of %v was damaged on its way", h.Name)
	case h.Name.Parity > 0:
		if h.Base {
			mine, err = h.Mine, sl.bring(n)
		}
		var code *erasure.Code
		if err == nil {
			code, err = k.code(h.Name)
		}
		if err == nil {
			code.Add(h.Name.Parity-1, h.Part, sl.room[h.Off:], b)
		}
	case h.Base:
		sl.there[n] = true
	}
	if err != nil {
		k.giveUp(h, err)
		return
	}
	if m := &sl.meta.Parts[h.Part]; n < len(m.Sums) {
		m.Sums[n] = mine
	}
	k.got(p, i, h, int64(len(b)))
}

// got counts bytes of a part. Caller holds mu.
func (k *keep) got(p *piece, i int, h *head, n int64) {
	sl := &p.slots[i]
	if sl.got[h.Part] += n; sl.got[h.Part] < h.length() {
		return
	}
	if k.m.Missing(h.Name, h.Cut) == 1 {
		k.spawn(func() { k.whole(p, i, h) })
		return
	}
	if _, err := k.m.Add(h.Name, h.Cut, h.Part); err != nil {
		k.giveUp(h, err)
	}
}

// whole finishes a piece all of whose parts are there.
func (k *keep) whole(p *piece, i int, h *head) {
	var sl slot
	err := error(nil)
	for n, more := 0, true; more && err == nil; n++ { // a block at a time: its epoch may be given up, and the slot be used for the next
		sl, more, err = k.finish(p, i, h, n)
	}
	if err == nil && sl.cut == h.Cut {
		err = k.st.persist(p, i, sl)
	}
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

// finish describes a block of a piece by its parts. A block of a parity for which no change has come is that of the base. It returns the slot as it is then, and
// whether there are more blocks.
func (k *keep) finish(p *piece, i int, h *head, n int) (_ slot, more bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sl := &p.slots[i]
	if sl.cut != h.Cut {
		return *sl, false, nil // it was given up
	}
	if h.Name.Parity == 0 {
		sl.meta, sl.base = sl.meta.Parts[0], nil
		return *sl, false, nil
	}
	if n == 0 {
		for _, part := range sl.meta.Parts {
			sl.meta.Size = max(sl.meta.Size, part.Size)
		}
	}
	if sl.base != nil {
		err = sl.bring(n)
	}
	sl.meta.Sums = append(sl.meta.Sums, checksum(cut(sl.room[:sl.meta.Size], n)))
	if more = int64(n+1)*blockSize < sl.meta.Size; !more {
		sl.base = nil
	}
	return *sl, more, err
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
