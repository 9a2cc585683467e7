// Package schedule has the algorithms of collectives: of which messages, copies and combinations the part of one rank
// consists. It is pure logic: a function of algorithm, rank, number of ranks and lengths adds to a Schedule what is to be
// done, in rounds:
//
//	messages    all at once
//	steps       when all of these are over: copies and combinations, in their order
//	messages    when these steps are done
//	...
//
// Package mpi gives schedules memory. A blocking call carries its schedule out itself, in its own goroutine, and keeps it
// for the next such call. What goes on while the program computes is carried out by the engine.
//
// Lengths and places are in elements. Between two ranks messages are matched in their order, so the k-th message
// that one rank sends to another is the k-th that the other receives from it. No rank sends to itself.
//
// Few rounds are better than short ones for what goes on while the program computes: each end of a round has to be noticed
// meanwhile. Reductions combine in one order (see Order), so results have the same bits whatever the algorithm. Only rings
// have an order of their own.
package schedule

// Memory is where elements lie. Rooms are numbered from Tmp on.
type Memory uint8

const (
	In  Memory = iota // what the call sends. It is only read, and may be the same memory as Out
	Out               // what the call receives
	Tmp               // the first room: memory of the call
)

// Span is a range of elements.
type Span struct {
	Mem      Memory
	Off, Len int
}

// Part returns the range [lo:hi) of a span.
func (s Span) Part(lo, hi int) Span { return Span{s.Mem, s.Off + lo, hi - lo} }

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

// Pieces cuts long messages: elements of Size bytes into pieces of about Bytes bytes. If Bytes is 0, there is one piece.
type Pieces struct{ Size, Bytes int }

// of returns into how many pieces k elements are cut.
func (p Pieces) of(k int) int {
	if bytes := k * p.Size; p.Bytes > 0 && bytes > p.Bytes {
		return (bytes + p.Bytes - 1) / p.Bytes
	}
	return 1
}

// gather adds the receives of all others' blocks.
func gather(s *Schedule, rank, n int, m Memory, b Blocks) {
	for d := 1; d < n; d++ {
		from := rank - d
		if from < 0 {
			from += n
		}
		s.recv(from, b.of(m, from))
	}
}

// scatter adds the sends of all others' blocks. It begins with the next higher rank.
func scatter(s *Schedule, rank, n int, m Memory, b Blocks) {
	for d := 1; d < n; d++ {
		to := rank + d
		if to >= n {
			to -= n
		}
		s.send(to, b.of(m, to))
	}
}

// Whole is one block of k elements for all ranks.
func Whole(k int) Blocks { return func(int) (int, int) { return 0, k } }
