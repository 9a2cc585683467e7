package virtual

import "fmt"

// Kind is a kind of objects.
type Kind uint8

// Kinds of objects.
const (
	KindDomain Kind = 1 + iota
	KindRegion
	KindQueue
	KindShared
	KindPair
)

const (
	countBits = 36
	rankBits  = 24
	maxCount  = 1<<countBits - 1
)

// ID names an object of any rank: rank, kind and count. Zero is none.
type ID uint64

// MakeID returns the name of an object: the count-th of its kind at a rank.
func MakeID(rank int, k Kind, count uint64) ID {
	return ID(rank)<<(countBits+4) | ID(k)<<countBits | ID(count)
}

// Rank returns the rank whose object it is.
func (id ID) Rank() int { return int(id >> (countBits + 4)) }

// Kind returns what it is.
func (id ID) Kind() Kind { return Kind(id >> countBits & 15) }

// Count returns how many objects of the kind the rank had made, with this one.
func (id ID) Count() uint64 { return uint64(id) & maxCount }

// String is as in transcripts: q3.1 is the first queue pair of rank 3.
func (id ID) String() string {
	if id == 0 {
		return "none"
	}
	letter := byte('?')
	if k := id.Kind(); k >= KindDomain && k <= KindPair {
		letter = "drcsq"[k-1]
	}
	return fmt.Sprintf("%c%d.%d", letter, id.Rank(), id.Count())
}
