package engine

import (
	"cmp"
	"slices"
)

// Matching. A receive is for (context, source, tag), where source and tag may be wildcards. A
// message always names all three. Receives and messages without a counterpart stand in queues found
// by one hash table:
//
//	class    key                 posted receives       unexpected messages
//	exact    (ctx, src, tag)     for just that         all of them
//	bySrc    (ctx, src, any)     with AnyTag           index, once such a receive or probe was seen
//	byTag    (ctx, any, tag)     with AnySource        index, likewise
//	byAll    (ctx, any, any)     with both             index, likewise
//
// A receive looks into the one queue of its own class, whose head is the earliest message that fits.
// A message looks into the queues of those classes that have receives posted, and takes the receive
// with the lowest sequence number. Both take constant time at any depth. Messages of one source and
// context arrive in order, and every queue is in order of arrival: that is MPI's non-overtaking rule
// (MPI-4.1 chapter 3.5).
//
// Queues and nodes are linked through themselves and used again. An empty queue stays in the table,
// as the next message most often has the same key. When the table is full, empty queues are swept
// out.
//
// Two shortcuts spare most messages the hashing. A receive that is posted while no other is stands
// alone, outside the table; it is earlier than all that follow. And the queue last used is
// remembered for each source.

const (
	exact = iota
	bySrc
	byTag
	byAll
	classes
)

type matchKey struct {
	ctx    uint64
	srcTag uint64
}

func makeKey(ctx uint64, src int, tag int32) matchKey {
	return matchKey{ctx, uint64(uint32(src))<<32 | uint64(uint32(tag))}
}

func (k matchKey) hash() uint64 {
	h := (k.ctx ^ k.srcTag*0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93
	return h ^ h>>32
}

func classOf(src int, tag int32) int {
	c := exact
	if tag == AnyTag {
		c |= bySrc
	}
	if src == AnySource {
		c |= byTag
	}
	return c
}

// classKey is the key under which class c knows a message.
func classKey(c int, ctx uint64, src int, tag int32) matchKey {
	if c&bySrc != 0 {
		tag = AnyTag
	}
	if c&byTag != 0 {
		src = AnySource
	}
	return makeKey(ctx, src, tag)
}

// queue holds the receives, or messages, of one key. At most one of the two lists is not empty.
type queue struct {
	key     matchKey
	class   uint8
	next    *queue // in the bucket, or in the list of free ones
	sibling *queue // among those of its context, see index.go
	posted  requestList
	probes  [2]probeList // callers that wait for a message to look at, and to take
	head    *message     // unexpected, linked through message.in[class]
	tail    *message
}

func (q *queue) empty() bool {
	return q.posted.head == nil && q.head == nil && q.probes[looks].head == nil && q.probes[takes].head == nil
}

// table is the match table of one engine.
type table struct {
	buckets []*queue
	kin     []*queue // by context, as many as buckets
	mask    uint64
	queues  int // in the table
	free    *queue
	alone   *request     // the receive posted before all others, of any class
	recent  []*queue     // by source, AnySource first: the exact or byTag queue last used
	kept    int          // unexpected messages
	seq     uint64       // counts posted receives
	listed  int          // receives in queues
	wild    int          // of them, in queues other than exact ones
	posted  [classes]int // of those by class
	probing [classes]int // callers in probes, by class
	probes  int          // of all classes
	indexed [classes]bool
	last    int64 // order of the last message added at the end
	front   int64 // and at the front: counts down
	steps   int   // counts what walks over many have looked at, for tests
}

func (t *table) init(size int) {
	t.recent = make([]*queue, size+1)
	t.buckets = make([]*queue, 64)
	t.kin = make([]*queue, len(t.buckets))
	t.mask = uint64(len(t.buckets) - 1)
	t.indexed[exact] = true
}

// find returns the queue of a key, nil if there is none.
func (t *table) find(k matchKey) *queue {
	if q := t.again(k); q != nil {
		return q
	}
	q := t.search(k)
	if q != nil {
		*t.latest(k) = q
	}
	return q
}

// again returns the queue of a key if it is the one last used.
func (t *table) again(k matchKey) *queue {
	if q := *t.latest(k); q != nil && q.key == k {
		return q
	}
	return nil
}

// latest is where the queue last used for the source of a key is remembered.
func (t *table) latest(k matchKey) **queue { return &t.recent[uint32(k.srcTag>>32)+1] }

func (t *table) search(k matchKey) *queue {
	q := t.buckets[k.hash()&t.mask]
	for q != nil && q.key != k {
		q = q.next
	}
	return q
}

// get returns the queue of a key, and makes it if there is none.
func (t *table) get(k matchKey, class int) *queue {
	if q := t.find(k); q != nil {
		return q
	}
	if t.queues >= len(t.buckets)/2 {
		t.sweep()
	}
	q := t.free
	if q == nil {
		q = t.moreQueues()
	}
	t.free = q.next
	q.key, q.class = k, uint8(class)
	t.place(q)
	t.queues++
	*t.latest(k) = q
	return q
}

// place puts a queue into the bucket of its key and among those of its context.
func (t *table) place(q *queue) {
	b, k := &t.buckets[q.key.hash()&t.mask], &t.kin[contextHash(q.key.ctx)&t.mask]
	q.next, *b = *b, q
	q.sibling, *k = *k, q
}

func (t *table) moreQueues() *queue {
	slab := make([]queue, 32)
	for i := range slab[1:] {
		slab[i].next = &slab[i+1]
	}
	return &slab[0]
}

// sweep takes empty queues out, and doubles the table if most queues are in use.
func (t *table) sweep() {
	clear(t.recent)
	var live *queue
	used := 0
	for i, q := range t.buckets {
		for q != nil {
			next := q.next
			if q.empty() {
				q.next, t.free = t.free, q
			} else {
				q.next, live = live, q
				used++
			}
			q = next
		}
		t.buckets[i] = nil
	}
	if used > len(t.buckets)/4 {
		t.buckets = make([]*queue, 2*len(t.buckets))
		t.kin = make([]*queue, len(t.buckets))
		t.mask = uint64(len(t.buckets) - 1)
	} else {
		clear(t.kin)
	}
	t.queues = used
	for live != nil {
		q := live
		live = q.next
		t.place(q)
	}
}

// post puts a receive at the end of its queue.
func (t *table) post(r *request) {
	t.seq++
	r.seq = t.seq
	if t.alone == nil && t.listed == 0 {
		t.alone = r
		return
	}
	k := makeKey(r.ctx, int(r.peer), r.tag)
	q := t.again(k)
	if q == nil {
		q = t.get(k, classOf(int(r.peer), r.tag))
	}
	t.listed++
	q.posted.push(r)
	if q.class != exact {
		t.wild++
		t.posted[q.class]++
	}
}

// idle reports whether no receive is posted.
func (t *table) idle() bool { return t.alone == nil && t.listed == 0 }

// unpost takes a posted receive out.
func (t *table) unpost(r *request) {
	if r == t.alone {
		t.alone = nil
		return
	}
	q := t.find(makeKey(r.ctx, int(r.peer), r.tag))
	t.listed--
	q.posted.remove(r)
	if q.class != exact {
		t.wild--
		t.posted[q.class]--
	}
}

// takePosted takes out the earliest posted receive that a message fits, nil if there is none.
func (t *table) takePosted(ctx uint64, src int, tag int32) *request {
	if r := t.alone; r != nil && r.fits(ctx, src, tag) {
		t.alone = nil
		return r
	}
	if t.listed == 0 {
		return nil
	}
	if q := t.onlyQueue(ctx, src, tag); q != nil {
		r := q.posted.head
		if r != nil {
			t.taken(q, r.next, 1)
		}
		return r
	}
	return t.takeListed(ctx, src, tag)
}

// fits reports whether a message is for the receive.
func (r *request) fits(ctx uint64, src int, tag int32) bool {
	return r.ctx == ctx && (int(r.peer) == src || r.peer == AnySource) && (r.tag == tag || r.tag == AnyTag)
}

// onlyQueue returns the queue of the only receives that a message can fit, apart from the one that
// stands alone. It returns nil if that is not known without a search.
func (t *table) onlyQueue(ctx uint64, src int, tag int32) *queue {
	if t.wild != 0 {
		return nil
	}
	return t.again(makeKey(ctx, src, tag))
}

// taken notes that n receives were taken out of a queue of class exact, and that first is now its
// head.
func (t *table) taken(q *queue, first *request, n int) {
	if q.posted.head = first; first != nil {
		first.prev = nil
	} else {
		q.posted.tail = nil
	}
	t.listed -= n
}

func (t *table) takeListed(ctx uint64, src int, tag int32) *request {
	var r *request
	if t.listed != t.wild {
		if q := t.find(makeKey(ctx, src, tag)); q != nil {
			r = q.posted.head
		}
	}
	if t.wild != 0 {
		r = t.earlierWild(r, ctx, src, tag)
	}
	if r != nil {
		t.unpost(r)
	}
	return r
}

func (t *table) earlierWild(r *request, ctx uint64, src int, tag int32) *request {
	for c := bySrc; c < classes; c++ {
		if t.posted[c] == 0 {
			continue
		}
		q := t.find(classKey(c, ctx, src, tag))
		if q != nil && q.posted.head != nil && (r == nil || q.posted.head.seq < r.seq) {
			r = q.posted.head
		}
	}
	return r
}

// first returns the earliest unexpected message that fits a receive or probe, nil if there is none.
// The message stays where it is.
func (t *table) first(ctx uint64, src int, tag int32) *message {
	c := classOf(src, tag)
	if !t.indexed[c] {
		t.index(c)
	}
	if q := t.find(makeKey(ctx, src, tag)); q != nil {
		return q.head
	}
	return nil
}

// index begins to keep the index of a class.
func (t *table) index(c int) {
	t.indexed[c] = true
	for _, m := range t.unexpected() {
		t.link(m, c, false)
	}
}

// unexpected returns all unexpected messages in order of arrival.
func (t *table) unexpected() []*message {
	var all []*message
	for _, q := range t.buckets {
		for ; q != nil; q = q.next {
			t.steps++
			if q.class != exact {
				continue
			}
			for m := q.head; m != nil; m = m.in[exact].next {
				t.steps++
				all = append(all, m)
			}
		}
	}
	slices.SortFunc(all, func(a, b *message) int { return cmp.Compare(a.order, b.order) })
	return all
}

// add puts a message without a waiting receive into the table: after all others, or before them.
func (t *table) add(m *message, front bool) {
	t.kept++
	if front {
		t.front--
		m.order = t.front
	} else {
		t.last++
		m.order = t.last
	}
	for c := range t.indexed {
		if t.indexed[c] {
			t.link(m, c, front)
		}
	}
}

func (t *table) link(m *message, c int, front bool) {
	q := t.get(classKey(c, m.h.Ctx, m.src, m.h.Tag), c)
	l := &m.in[c]
	l.queue = q
	switch {
	case q.head == nil:
		q.head, q.tail = m, m
	case front:
		l.next, q.head.in[c].prev = q.head, m
		q.head = m
	default:
		l.prev, q.tail.in[c].next = q.tail, m
		q.tail = m
	}
}

// remove takes an unexpected message out of the table.
func (t *table) remove(m *message) {
	t.kept--
	for c := range m.in {
		l := &m.in[c]
		q := l.queue
		if q == nil {
			continue
		}
		if l.prev != nil {
			l.prev.in[c].next = l.next
		} else {
			q.head = l.next
		}
		if l.next != nil {
			l.next.in[c].prev = l.prev
		} else {
			q.tail = l.prev
		}
		*l = messageLink{}
	}
}
