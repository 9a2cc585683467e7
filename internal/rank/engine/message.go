package engine

import (
	"math/bits"

	"github.com/gorun-mpi/gorun/rpi"
)

// message is a message that has arrived, or was announced, before its receive.
type message struct {
	in         [classes]messageLink // in the match table
	order      int64                // of arrival
	next, prev *message             // among those taken by a matched probe; next in the free list
	h          rpi.Header
	src        int
	gen        uint32
	foreign    bool     // saved on a machine of the other byte order
	taken      bool     // by a matched probe
	gone       bool     // given up by its sender after a matched probe took it
	local      *request // sent by this rank to itself and not copied
	data       []byte   // inline or of the engine's buffers; nil if announced or local
	inline     [inlineSize]byte
}

type messageLink struct {
	next, prev *message
	queue      *queue
}

// inlineSize is the longest payload kept in the node itself.
const inlineSize = 64

// announced reports whether the payload is still at the sender.
func (m *message) announced() bool { return m.h.Kind == rpi.RTS && m.local == nil }

func (m *message) status() Status {
	return Status{Source: m.src, Tag: int(m.h.Tag), Bytes: int(m.h.Len), Type: m.h.Type}
}

type messageList struct{ head, tail *message }

func (l *messageList) push(m *message) {
	m.prev, m.next = l.tail, nil
	if l.tail != nil {
		l.tail.next = m
	} else {
		l.head = m
	}
	l.tail = m
}

func (l *messageList) remove(m *message) {
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		l.head = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	} else {
		l.tail = m.prev
	}
	m.next, m.prev = nil, nil
}

// messagePool hands out nodes and payload buffers. Buffers come in powers of
// two; each class keeps at most keepBytes, the rest is left to the collector.
type messagePool struct {
	free    *message
	kept    int
	buffers [maxFrameBits + 1][][]byte
}

const (
	maxFrameBits = 18 // MaxFrame is 1 << maxFrameBits
	keepBytes    = 1 << 20
	keepNodes    = 4096
)

// get returns a node with room for n bytes (n <= MaxFrame).
func (p *messagePool) get(n int) *message {
	m := p.free
	if m == nil {
		m = &message{gen: 1}
	} else {
		p.free, m.next = m.next, nil
		p.kept--
	}
	switch {
	case n <= inlineSize:
		m.data = m.inline[:n]
	default:
		m.data = p.buffer(n)
	}
	return m
}

func (p *messagePool) buffer(n int) []byte {
	class := bits.Len(uint(n - 1))
	if class > maxFrameBits {
		return make([]byte, n) // an injected message may be of any length
	}
	kept := p.buffers[class]
	if len(kept) == 0 {
		return make([]byte, n, 1<<class)
	}
	b := kept[len(kept)-1]
	p.buffers[class] = kept[:len(kept)-1]
	return b[:n]
}

// put takes a node and its buffer back.
func (p *messagePool) put(m *message) {
	if c := cap(m.data); c > inlineSize && c&(c-1) == 0 && c <= rpi.MaxFrame {
		class := bits.Len(uint(c - 1))
		if len(p.buffers[class]) < max(keepBytes>>class, 1) {
			p.buffers[class] = append(p.buffers[class], m.data[:0])
		}
	}
	m.gen++
	m.data, m.local, m.foreign, m.taken, m.gone = nil, nil, false, false, false
	if p.kept < keepNodes {
		m.next = p.free
		p.free = m
		p.kept++
	}
}
