package mirror

import (
	"bytes"
	"context"
	"crypto/subtle"
	"fmt"
	"sync"

	"github.com/gorun-mpi/gorun/cr/mirror/internal/machine"
	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
)

// Blocks that have not changed since the epoch before do not travel, and are not encoded again.
//
//	sender          base | own image of the newest complete epoch          holder     base | replica, or parity, of that
//	                new  | this epoch's                                                new  | this epoch's
//	  block of new = block of base:   same  ------------------------------>  replica: copied from the base, sum checked
//	                                                                         parity:  nothing to do
//	  a replica's block has changed:  part, the block  ------------------->  replica: written
//	  a parity's:                     part, block xor base's block  ------>  parity:  base's block, then this added
//
// The base is complete everywhere, so nobody has given it up, whatever became of epochs after it
// (package twoslots). All members of a group take the same one, as machine.Base says. Blocks are
// compared byte by byte. If a block of a base has changed, the epoch is given up, and the next one
// is sent whole.

// outgoing is an image on its way to its holders. It computes once for each block, at its first
// use, whether it has changed since the base, and its sum.
type outgoing struct {
	image, base []byte
	was         []uint32 // sums of the base; nil: there is none, and all counts as changed
	once        []sync.Once
	sum         []uint32
	same        []bool
}

// newOutgoing returns an image of which nothing is known; base may be nil.
func newOutgoing(image []byte, base *slot) *outgoing {
	n := max(1, (len(image)+blockSize-1)/blockSize)
	o := &outgoing{image: image, once: make([]sync.Once, n), sum: make([]uint32, n), same: make([]bool, n)}
	if base != nil {
		o.base, o.was = base.room[:base.meta.Size], base.meta.Sums
	}
	return o
}

// sumsOf are those of an image's blocks.
func sumsOf(image []byte) []uint32 { return newOutgoing(image, nil).all() }

// cut is a block of an image, as far as the image reaches.
func cut(image []byte, i int) []byte {
	return image[min(len(image), i*blockSize):min(len(image), (i+1)*blockSize)]
}

// of looks at a block.
func (o *outgoing) of(i int) (sum uint32, same bool) {
	o.once[i].Do(func() {
		b := cut(o.image, i)
		if o.was != nil && len(b) > 0 && bytes.Equal(b, cut(o.base, i)) {
			o.sum[i], o.same[i] = o.was[i], true
		} else {
			o.sum[i] = checksum(b)
		}
	})
	return o.sum[i], o.same[i]
}

// all are the sums of all blocks.
func (o *outgoing) all() []uint32 {
	for i := range o.once {
		o.of(i)
	}
	return o.sum
}

// span is how far the bytes reach that a parity gets: where an image was longer, its end has to be taken out.
func (o *outgoing) span() int64 { return int64(max(len(o.image), len(o.base))) }

// change is what a parity is to add for a block: block and base's block, added. buf is room for it.
func (o *outgoing) change(i int, buf []byte) ([]byte, error) {
	now, was := cut(o.image, i), cut(o.base, i)
	if len(was) > 0 && checksum(was) != o.was[i] {
		return nil, fmt.Errorf("block %d of the own image of the epoch before is not what it was", i)
	}
	d := buf[:max(len(now), len(was))]
	n := subtle.XORBytes(d, now, was)
	copy(d[n:], now[min(n, len(now)):])
	copy(d[n:], was[min(n, len(was)):])
	return d, nil
}

// stream sends an image to one holder, and tells how many bytes of it have travelled.
func (k *keep) stream(ctx context.Context, life, turn uint32, c, done twoslots.Cut, t machine.Target, o *outgoing) (sent int64, err error) {
	h := head{To: k.name, Turn: turn, Is: isPart, Name: t.Name, Part: t.Part, Cut: c, Done: done, Size: int64(len(o.image)), Base: o.was != nil}
	end := h.Size
	if h.Base && t.Name.Parity > 0 {
		h.Span = o.span()
		end = h.Span
	}
	put := func(h head, body []byte) error {
		sent += int64(len(body))
		return k.w.t.Put(ctx, life, t.To, h.encode(), body)
	}
	run := h // of blocks that have not changed
	run.Is = isSame
	flush := func() (err error) {
		if run.Run > 0 {
			err = put(run, nil)
		}
		run.Run = 0
		return err
	}
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	err = blocks(end, func(i int, off, n int64) error {
		h.Off, h.Sum, h.Mine = off, 0, 0
		body, same := cut(o.image, i), false
		if i < len(o.once) {
			h.Sum, same = o.of(i)
		}
		if same {
			if run.Run == 0 {
				run.Off = off
			}
			run.Run += n
			return nil
		}
		err := flush()
		if err == nil && h.Span > 0 {
			h.Mine = h.Sum
			if body, err = o.change(i, *buf); err == nil {
				h.Sum = checksum(body)
			}
		}
		if err != nil {
			return err
		}
		return put(h, body)
	})
	if err == nil {
		err = flush()
	}
	return sent, err
}

// same takes a run of blocks that have not changed since the base.
func (k *keep) same(life uint32, h *head) {
	for off := h.Off; off < h.Off+h.Run; off += blockSize {
		if !k.sameBlock(life, h, off) {
			return
		}
	}
}

func (k *keep) sameBlock(life uint32, h *head, off int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, i, ok := k.open(life, h)
	if !ok {
		return false
	}
	sl, b := &p.slots[i], int(off/blockSize)
	was, n := &sl.base.meta, min(blockSize, h.Off+h.Run-off)
	if h.Name.Parity > 0 {
		was = &was.Parts[h.Part]
	} else if err := sl.bring(b); err != nil {
		k.giveUp(h, err)
		return false
	}
	m := &sl.meta.Parts[h.Part]
	if b >= len(was.Sums) || b >= len(m.Sums) || n != min(blockSize, was.Size-off) {
		k.giveUp(h, fmt.Errorf("%v: block %d is said to be that of %v, and is longer", h.Name, b, h.Done))
		return false
	}
	m.Sums[b] = was.Sums[b]
	k.got(p, i, h, n)
	return true
}

// bring copies a block from the base, unless something has come into its place before.
func (sl *slot) bring(i int) error {
	if sl.there[i] {
		return nil
	}
	b, from := cut(sl.room, i), cut(sl.base.room[:sl.base.meta.Size], i)
	if len(from) > 0 && checksum(from) != sl.base.meta.Sums[i] {
		return fmt.Errorf("block %d of the epoch before is not what it was", i)
	}
	clear(b[copy(b, from):])
	sl.there[i] = true
	return nil
}
