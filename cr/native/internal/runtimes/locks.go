package runtimes

// Locks of glibc that name their owner, as they lie in memory (x86-64).
//
//	mutex, 40 bytes: lock, count, owner, users, kind (32 bits each), spins, elision
//	                 (16 bits each), and two pointers of the list of robust ones
//	rwlock, 56 bytes: readers, writers, two more, its writer at 24

// LockSize is the size of the largest.
const LockSize = 56

// OwnerOffsets are where in a lock its owner stands.
var OwnerOffsets = []int{ownerAt, writerAt}

const (
	ownerAt  = 8
	writerAt = 24
)

// OwnerMask is the part of a lock's word that is an id, in robust locks and those with
// priorities.
const OwnerMask = 1<<30 - 1

// LockWords gives which words of p hold the id at off, if p is a held lock; none
// otherwise. p has LockSize bytes.
func LockWords(p []byte, off int) []int {
	word := func(at int) uint32 { return le.Uint32(p[at:]) }
	if off == writerAt {
		const held = 3 // by a writer
		if word(0)&held == held && word(writerAt+4) == 0 && le.Uint64(p[40:]) == 0 && word(48)&^2 == 0 {
			return []int{writerAt}
		}
		return nil
	}
	const (
		recursive, errorCheck = 1, 2
		robust, priority      = 16, 32
		knownKinds            = 0x3ff
	)
	kind, lock := word(16), word(0)
	owned := kind&3 == recursive || kind&3 == errorCheck || kind&(robust|priority) != 0
	if !owned || kind&^knownKinds != 0 || word(12) == 0 || kind&3 == recursive && word(4) == 0 {
		return nil
	}
	if kind&(robust|priority) != 0 {
		if lock&OwnerMask != word(ownerAt) {
			return nil
		}
		return []int{0, ownerAt}
	}
	if lock != 1 && lock != 2 || le.Uint64(p[24:]) != 0 || le.Uint64(p[32:]) != 0 {
		return nil
	}
	return []int{ownerAt}
}
