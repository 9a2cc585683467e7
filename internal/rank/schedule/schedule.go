// Package schedule lists the messages of a collective that goes on while the program computes. It
// is pure logic: a function of algorithm, rank, number of ranks and lengths returns the steps of
// one rank. Package mpi makes memory of them, and the engine carries them out.
//
//	round 0   send, receive, ...      all at once
//	          copy, combine, ...      when all of these are over, in this order
//	round 1   send, receive, ...
//	...
//
// Lengths and places are in elements. Between two ranks messages are matched in their order, so the k-th message
// that one rank sends to another in its schedule is the k-th that the other receives from it. No rank sends to itself.
//
// Few rounds are better than short ones: each end of a round has to be noticed while the program computes. So where
// the lengths allow it everything goes at once. Reductions combine in the order that package mpi has, too (see Order): results
// have the same bits as those of the blocking calls.
package schedule

// Memory is where elements lie.
type Memory uint8

const (
	In  Memory = iota // what the call sends. It is only read, and may be the same memory as Out
	Out               // what the call receives
	Tmp               // memory of the call
)

// Span is a range of elements.
type Span struct {
	Mem      Memory
	Off, Len int
}

// Part returns the range [lo:hi) of a span.
func (s Span) Part(lo, hi int) Span { return Span{s.Mem, s.Off + lo, hi - lo} }

// Message is sent to or received from a peer.
type Message struct {
	Peer int
	Recv bool
	Span
}

// Step is done between rounds. A copy makes Dst equal to Src. A combination replaces Dst by Dst combined with Src,
// where Dst is of lower ranks.
type Step struct {
	Combine  bool
	Dst, Src Span
}

// Round is a set of messages, then steps.
type Round struct {
	Messages []Message
	Steps    []Step
}

// Schedule is what one rank does. It needs Tmp elements of memory besides the program's.
type Schedule struct {
	Rounds []Round
	Tmp    int
}

// Blocks tells where in a buffer the block of each rank lies.
type Blocks func(rank int) (lo, hi int)

// Equal are blocks of k elements each, one after the other.
func Equal(k int) Blocks { return func(i int) (int, int) { return i * k, (i + 1) * k } }

// Evenly divides total elements among n, as equally as possible.
func Evenly(total, n int) Blocks {
	q, r := total/n, total%n // the first r get one more
	return func(i int) (int, int) { return i*q + min(i, r), (i+1)*q + min(i+1, r) }
}

func (b Blocks) of(m Memory, i int) Span {
	lo, hi := b(i)
	return Span{m, lo, hi - lo}
}

// Finish makes sure that there is a round, for callers that have to do something after the last one.
func (s *Schedule) Finish() { s.last() }

// round adds a round. The last one is where messages and steps go.
func (s *Schedule) round() { s.Rounds = append(s.Rounds, Round{}) }

func (s *Schedule) last() *Round {
	if len(s.Rounds) == 0 {
		s.round()
	}
	return &s.Rounds[len(s.Rounds)-1]
}

func (s *Schedule) send(peer int, x Span) {
	r := s.last()
	r.Messages = append(r.Messages, Message{peer, false, x})
}

func (s *Schedule) recv(peer int, x Span) {
	r := s.last()
	r.Messages = append(r.Messages, Message{peer, true, x})
}

func (s *Schedule) copy(dst, src Span) {
	if dst != src && dst.Len > 0 {
		r := s.last()
		r.Steps = append(r.Steps, Step{false, dst, src})
	}
}

func (s *Schedule) combine(dst, src Span) {
	if dst.Len > 0 {
		r := s.last()
		r.Steps = append(r.Steps, Step{true, dst, src})
	}
}

// room returns k more elements of Tmp.
func (s *Schedule) room(k int) Span {
	s.Tmp += k
	return Span{Tmp, s.Tmp - k, k}
}
