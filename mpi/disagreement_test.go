package mpi

import (
	"slices"
	"strings"
	"testing"
)

func TestDisagreement(t *testing.T) {
	bcast := func(root uint64) []call { return []call{{1<<8 | uint64(kindBcast), root, 8}} }
	one := account{ctx: 2, seq: 1, hash: 7, calls: bcast(0)}
	change := func(f func(a *account)) account {
		a := one
		f(&a)
		return a
	}
	for _, x := range []struct {
		name   string
		other  account
		failed bool
		says   string
	}{
		{"another root", change(func(a *account) { a.calls, a.hash = bcast(1), 8 }), false, "on world rank 0 of the world has made call 1, Bcast, root 0, 8 bytes, rank 1 call 1, Bcast, root 1"},
		{"more calls", change(func(a *account) { a.seq, a.hash = 2, 8 }), false, "on world rank 0 of the world has made 1 collective calls, rank 1 2"},
		{"another operator", change(func(a *account) { a.hash = 8 }), false, "another operator"},
		{"it has failed on one", change(func(a *account) { a.hash, a.failed = 8, true }), false, ""},
		{"another has failed and was freed", one, true, ""},
		{"another was freed", one, false, "a communicator that was freed"},
	} {
		all := map[uint64][]ranked{2: {{one, 0}, {x.other, 1}}}
		got := disagreement(all, x.failed, func(uint64) (string, bool) { return "world", true })
		if (got == "") != (x.says == "") || !strings.Contains(got, x.says) {
			t.Errorf("%s: %q", x.name, got)
		}
	}
}

// The accounts of ranks that agree add up to 0, and those of others do not.
func TestWeights(t *testing.T) {
	for _, size := range []int{2, 3, 64} {
		for odd := -1; odd < size; odd++ {
			var sum, across uint64
			for rank := range size {
				a := account{ctx: 10, seq: 5, hash: 3}
				if rank == odd {
					a.hash++
				}
				sum += (&core{rank: rank, size: size}).weighed(a)
				across += between(rank, size).weighed(a)
			}
			if (sum == 0) != (odd < 0) || (across == 0) != (odd < 0) {
				t.Errorf("%d ranks, %d differs: the sum is %#x", size, odd, sum)
			}
		}
	}
}

// between is what a rank has of an intercommunicator whose lower group is the first rank.
func between(rank, size int) *core {
	local := func(rank, size int) *Comm { return &Comm{core: &core{rank: rank, size: size}} }
	if rank == 0 {
		return &core{size: size - 1, inter: &inter{local: local(0, 1), low: true}}
	}
	return &core{rank: rank - 1, size: 1, inter: &inter{local: local(rank-1, size-1)}}
}

// Accounts survive encoding and decoding, and nonsense harms nobody.
func FuzzAccounts(f *testing.F) {
	seed := (&account{ctx: 4, seq: 2, hash: 9, failed: true, calls: []call{{1, 2, 3}, {4, 5, 6}}}).encode(nil)
	f.Add(bytesOf(seed))
	f.Add(bytesOf(seed[:5]))
	f.Fuzz(func(t *testing.T, p []byte) {
		words := viewOf[uint64](append(make([]byte, 0, len(p)+8), p...))
		var again []uint64
		for _, a := range decodeAccounts(words) {
			again = a.encode(again)
		}
		if len(again) > len(words) || !slices.Equal(again, words[:len(again)]) {
			t.Fatalf("%x became %x", words, again)
		}
	})
}
