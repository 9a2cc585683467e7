package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gorun-mpi/gorun/cr/mirror/internal/machine"
	"github.com/gorun-mpi/gorun/internal/storage/erasure"
	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
)

// look claims what others have left and checks all sums, for the census.
func (k *keep) look() {
	k.mu.Lock()
	err := k.st.claim(k.pieces, k.m.Adopt)
	type whole struct {
		name machine.Name
		cut  twoslots.Cut
		sl   *slot
	}
	var all []whole
	for _, n := range k.m.Held() {
		for i, c := range k.m.Slots(n) {
			if p := k.pieces[n]; p != nil {
				all = append(all, whole{n, c, &p.slots[i]})
			}
		}
	}
	k.mu.Unlock()
	bad := map[machine.Name][]twoslots.Cut{}
	for _, w := range all {
		if w.sl.cut != w.cut || !w.sl.meta.ok(w.sl.room) {
			bad[w.name] = append(bad[w.name], w.cut)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.Damaged += len(bad)
	if err != nil {
		k.do(k.m.Cannot(err.Error()))
		return
	}
	k.do(k.m.Looked(bad))
}

// make makes pieces of the epoch that the life begins with.
func (k *keep) make(a machine.Make) {
	ctx := k.w.context()
	for _, n := range a.Names {
		if err := k.makeOne(ctx, n, a); err != nil {
			if ctx.Err() == nil {
				k.mu.Lock()
				k.do(k.m.Cannot(fmt.Sprintf("%v of epoch %d: %v", n, a.Cut.Seq, err)))
				k.mu.Unlock()
			}
			return
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.Made += len(a.Names)
	actions, err := k.m.MadeAll(a)
	if err != nil {
		actions = k.m.Cannot(err.Error())
	}
	k.do(actions)
}

func (k *keep) makeOne(ctx context.Context, n machine.Name, a machine.Make) error {
	k.mu.Lock()
	p := k.piece(n)
	i, err := k.m.Room(n)
	if err == nil {
		err = k.st.begin(p, i, a.Cut, len(n.Members()))
	}
	k.mu.Unlock()
	if err != nil {
		return err
	}
	sl := &p.slots[i]
	room := func(size int64) ([]byte, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if err := k.st.grow(p, i, size); err != nil {
			return nil, err
		}
		return sl.room[:size], nil
	}
	if n.Parity > 0 {
		err = k.makeParity(ctx, n, a, sl, room)
	} else if sl.meta, err = k.fetchAny(ctx, n, a, room); errors.Is(err, errNowhere) {
		sl.meta, err = k.rebuild(ctx, n, a, room)
	}
	if err != nil {
		return err
	}
	return k.st.persist(p, i, *sl)
}

// errNowhere says that no member has a whole copy.
var errNowhere = errors.New("nobody has a whole copy")

// fetchAny gets a piece from a member that has it. A copy that turns out to be damaged is passed
// over for the next.
func (k *keep) fetchAny(ctx context.Context, n machine.Name, a machine.Make, room func(int64) ([]byte, error)) (m meta, err error) {
	err = errNowhere
	for _, w := range a.Where {
		if w.Name != n || ctx.Err() != nil {
			continue
		}
		if m, err = k.fetch(ctx, w.Rank, n, a.Cut, room); err == nil {
			return m, nil
		}
	}
	return m, err
}

// makeParity adds up the images of a group.
func (k *keep) makeParity(ctx context.Context, n machine.Name, a machine.Make, sl *slot, room func(int64) ([]byte, error)) error {
	code, err := k.code(n)
	if err != nil {
		return err
	}
	var images [][]byte
	for _, r := range n.Members() {
		var image []byte
		m, err := k.fetchAny(ctx, machine.Image(r), a, inHeap(&image))
		if err != nil {
			return err
		}
		images = append(images, image)
		sl.meta.Parts = append(sl.meta.Parts, m)
		sl.meta.Size = max(sl.meta.Size, m.Size)
	}
	b, err := room(sl.meta.Size)
	if err != nil {
		return err
	}
	clear(sl.room)
	for i, image := range images {
		code.Add(n.Parity-1, i, b, image)
	}
	sl.meta.Sums = sumsOf(b)
	return nil
}

func inHeap(b *[]byte) func(int64) ([]byte, error) {
	return func(size int64) ([]byte, error) {
		*b = make([]byte, size)
		return *b, nil
	}
}

// rebuild computes an image from what is left of its group.
func (k *keep) rebuild(ctx context.Context, n machine.Name, a machine.Make, room func(int64) ([]byte, error)) (m meta, err error) {
	err = errNowhere
	for _, w := range a.Where {
		members := w.Name.Members()
		at := indexOf(members, n)
		if w.Name.Parity == 0 || at < 0 {
			continue
		}
		if m, err = k.rebuildFrom(ctx, w.Name.Of, members, at, a, room); err == nil {
			return m, nil
		}
	}
	return m, err
}

func indexOf(members []int, n machine.Name) int {
	for i, r := range members {
		if machine.Image(r) == n {
			return i
		}
	}
	return -1
}

// rebuildFrom computes an image of one group.
func (k *keep) rebuildFrom(ctx context.Context, of string, members []int, at int, a machine.Make, room func(int64) ([]byte, error)) (m meta, err error) {
	left := make([]*erasure.Source, len(members))
	have := 0
	add := func(i int, n machine.Name) {
		if have == len(members) {
			return
		}
		var b []byte
		got, e := k.fetchAny(ctx, n, a, inHeap(&b))
		if e != nil {
			return
		}
		for i >= len(left) {
			left = append(left, nil)
		}
		left[i] = &erasure.Source{ReaderAt: bytes.NewReader(b), Size: got.Size}
		have++
		if n.Parity > 0 && at < len(got.Parts) {
			m = got.Parts[at]
		}
	}
	most := 0
	for _, w := range a.Where {
		if w.Name.Of == of {
			most = max(most, w.Name.Parity)
		}
	}
	for p := 1; p <= most; p++ { // parities tell the sums of the image
		add(len(members)+p-1, machine.Name{Of: of, Parity: p})
	}
	for i, r := range members {
		if i != at {
			add(i, machine.Image(r))
		}
	}
	if have < len(members) || m.Sums == nil {
		return m, fmt.Errorf("%d pieces are left of ranks %s, and %d are needed", have, of, len(members))
	}
	for len(left) < len(members)+most {
		left = append(left, nil)
	}
	code, err := codeOf(len(members), most)
	if err != nil {
		return m, err
	}
	b, err := room(m.Size)
	if err != nil {
		return m, err
	}
	if err := code.Rebuild(ctx, left, []erasure.Want{{Index: at, Size: m.Size, To: erasure.Memory(b)}}); err != nil {
		return m, err
	}
	if !m.ok(b) {
		return m, errors.New("what was computed is not what was saved")
	}
	return m, nil
}

// call is a piece that was asked for.
type call struct {
	room  func(size int64) ([]byte, error)
	mu    sync.Mutex
	b     []byte
	got   int64
	meta  *meta
	err   error
	ended chan struct{}
}

// fetch gets a piece from a rank, checked.
func (k *keep) fetch(ctx context.Context, rank int, n machine.Name, cut twoslots.Cut, room func(int64) ([]byte, error)) (meta, error) {
	if rank == k.rank() {
		return k.copyOwn(n, cut, room)
	}
	c := &call{room: room, ended: make(chan struct{})}
	k.mu.Lock()
	turn := k.turn()
	k.mu.Unlock()
	k.w.mu.Lock()
	k.w.called++
	id := k.w.called
	k.w.calls[id] = c
	life := k.w.life.Number
	k.w.mu.Unlock()
	defer func() {
		k.w.mu.Lock()
		delete(k.w.calls, id)
		k.w.mu.Unlock()
	}()
	h := head{To: k.name, Turn: turn, Is: isWant, Name: n, Cut: cut, Call: id}
	if err := k.w.t.Put(ctx, life, rank, h.encode(), nil); err != nil {
		return meta{}, err
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		return meta{}, context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return meta{}, c.err
	case c.got != c.meta.Size || !c.meta.fits():
		return meta{}, fmt.Errorf("%d bytes came from rank %d, of %d", c.got, rank, c.meta.Size)
	case !c.meta.ok(c.b):
		return meta{}, fmt.Errorf("what came from rank %d is damaged", rank)
	}
	return *c.meta, nil
}

// copyOwn gets a piece that this rank holds itself.
func (k *keep) copyOwn(n machine.Name, cut twoslots.Cut, room func(int64) ([]byte, error)) (meta, error) {
	sl := k.find(n, cut)
	if sl == nil {
		return meta{}, errNowhere
	}
	b, err := room(sl.meta.Size)
	if err != nil {
		return meta{}, err
	}
	copy(b, sl.room)
	return sl.meta, nil
}

// find returns the slot of an epoch that is whole here.
func (k *keep) find(n machine.Name, cut twoslots.Cut) *slot {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, c := range k.m.Slots(n) {
		if p := k.pieces[n]; c == cut && p != nil {
			return &p.slots[i]
		}
	}
	return nil
}

func (c *call) block(h *head) ([]byte, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.b == nil && c.err == nil {
		c.b, c.err = c.room(h.Size)
	}
	end := h.Off + min(blockSize, h.Size-h.Off)
	if c.err != nil || end > int64(len(c.b)) {
		return nil, func() {}
	}
	return c.b[h.Off:end], func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.got += end - h.Off
	}
}

func (c *call) end(h *head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.meta == nil && c.err == nil {
		if c.meta = h.Meta; c.meta == nil {
			c.err = errors.New(h.Text)
		}
	}
	select {
	case <-c.ended:
	default:
		close(c.ended)
	}
}

// asked answers a request for a piece.
func (k *keep) asked(life uint32, from int, h *head) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.here(life, h) {
		k.spawn(func() { k.answer(life, from, h) })
	}
}

func (k *keep) answer(life uint32, from int, h *head) {
	ctx := k.w.contextOf(life)
	if ctx == nil {
		return
	}
	end := head{To: k.name, Is: isEnd, Call: h.Call, Text: fmt.Sprintf("rank %d does not have %v", k.rank(), h.Name)}
	if sl := k.find(h.Name, h.Cut); sl != nil {
		end.Text, end.Meta = "", &sl.meta
		blocks(sl.meta.Size, func(i int, off, n int64) error {
			b := head{To: k.name, Is: isPiece, Name: h.Name, Cut: h.Cut, Size: sl.meta.Size, Off: off, Call: h.Call}
			return k.w.t.Put(ctx, life, from, b.encode(), sl.room[off:off+n])
		})
	}
	k.w.t.Put(ctx, life, from, end.encode(), nil) // if it does not arrive, the life is over
}
