package main

import (
	"slices"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// sorter ranks the keys of one rank.
type sorter struct {
	c     *mpi.Comm
	loop  *nas.Loop
	p     problem
	first int     // of the keys of this rank
	keys  []int32 // the caller's

	probed       []int64 // values of the keys whose ranks are known
	sent, sorted []int32 // keys by bucket: this rank's, and of its buckets
	begin        int     // values of its buckets
	end          int
	below        int64   // keys of lower buckets
	count        []int32 // of the keys up to each value, less those below
}

func newSorter(c *mpi.Comm, loop *nas.Loop, p problem, first int, keys []int32) *sorter {
	return &sorter{c: c, loop: loop, p: p, first: first, keys: keys, sent: make([]int32, len(keys))}
}

// change makes an iteration differ from the others.
func (s *sorter) change(i int) {
	for _, k := range [2][2]int{{i, i}, {i + iterations, 1<<s.p.values - i}} {
		if at := k[0] - s.first; at >= 0 && at < len(s.keys) {
			s.keys[at] = int32(k[1])
		}
	}
}

func (s *sorter) bucketOf(key int32) int { return int(key >> (s.p.values - s.p.buckets)) }

// rank brings the keys to their ranks and counts them there.
func (s *sorter) rank() error {
	buckets := 1 << s.p.buckets
	own := make([]int64, buckets, buckets+probes) // keys in each bucket, then the values of the probes
	for _, k := range s.keys {
		own[s.bucketOf(k)]++
	}
	s.pack(own)
	send := own[:buckets+probes]
	for i, at := range s.p.index {
		if at -= s.first; at >= 0 && at < len(s.keys) {
			send[buckets+i] = int64(s.keys[at])
		}
	}
	all := make([]int64, len(send))
	if err := s.loop.Outside(func() error { return mpi.Allreduce(s.c, send, all, mpi.Sum) }); err != nil {
		return err
	}
	s.probed, all = all[buckets:], all[:buckets]
	bounds := s.divide(all)
	if err := s.exchange(own, bounds); err != nil {
		return err
	}
	s.sum(bounds[s.c.Rank()], bounds[s.c.Rank()+1], all)
	return nil
}

// pack puts the keys in the order of their buckets.
func (s *sorter) pack(sizes []int64) {
	at := make([]int, len(sizes))
	sum := 0
	for b, n := range sizes {
		at[b] = sum
		sum += int(n)
	}
	for _, k := range s.keys {
		b := s.bucketOf(k)
		s.sent[at[b]] = k
		at[b]++
	}
}

// divide returns the first bucket of each rank, and their number: all ranks get about as many keys, and at least one
// bucket.
func (s *sorter) divide(all []int64) []int {
	ranks := s.c.Size()
	bounds := make([]int, 1, ranks+1)
	b, sum := 0, int64(0)
	for r := 1; r < ranks; r++ {
		goal := int64(r) << s.p.keys / int64(ranks)
		for last := len(all) - (ranks - r); b < last && (b == bounds[r-1] || sum < goal); b++ {
			sum += all[b]
		}
		bounds = append(bounds, b)
	}
	return append(bounds, len(all))
}

// exchange sends each key to the rank of its bucket.
func (s *sorter) exchange(sizes []int64, bounds []int) error {
	ranks := s.c.Size()
	scounts, rcounts := make([]int, ranks), make([]int, ranks)
	for r := range ranks {
		for _, n := range sizes[bounds[r]:bounds[r+1]] {
			scounts[r] += int(n)
		}
	}
	if err := s.loop.Outside(func() error { return mpi.Alltoall(s.c, scounts, rcounts) }); err != nil {
		return err
	}
	n := 0
	for _, k := range rcounts {
		n += k
	}
	s.sorted = slices.Grow(s.sorted[:0], n)[:n]
	return s.loop.Outside(func() error {
		return mpi.Alltoallv(s.c, s.sent, scounts, nil, s.sorted, rcounts, nil)
	})
}

// sum counts the keys of the buckets from b to e.
func (s *sorter) sum(b, e int, all []int64) {
	width := 1 << (s.p.values - s.p.buckets)
	s.begin, s.end, s.below = b*width, e*width, 0
	for _, n := range all[:b] {
		s.below += n
	}
	n := s.end - s.begin
	s.count = slices.Grow(s.count[:0], n)[:n]
	clear(s.count)
	for _, k := range s.sorted {
		s.count[int(k)-s.begin]++
	}
	for i := 1; i < n; i++ {
		s.count[i] += s.count[i-1]
	}
}

// rankOf returns how many keys are less than a value of this rank.
func (s *sorter) rankOf(value int) int64 {
	if value == s.begin {
		return s.below
	}
	return s.below + int64(s.count[value-s.begin-1])
}

// partial returns how many of the probes of all ranks have their rank.
func (s *sorter) partial(iteration int) (all int, err error) {
	right := 0
	for i, v := range s.probed {
		if int(v) >= s.begin && int(v) < s.end && s.rankOf(int(v)) == int64(s.p.rank[i]+s.p.shift(i, iteration)) {
			right++
		}
	}
	err = s.loop.Outside(func() (err error) {
		all, err = mpi.AllreduceValue(s.c, right, mpi.Sum)
		return err
	})
	return all, err
}

// misplaced puts all keys at their ranks, and returns how many are less than the one before, or of another rank.
func (s *sorter) misplaced() (int, error) {
	sorted, next := make([]int32, len(s.sorted)), slices.Clone(s.count)
	wrong := 0
	for _, k := range s.sorted {
		if int(k) < s.begin || int(k) >= s.end {
			wrong++
			continue
		}
		next[int(k)-s.begin]--
		sorted[next[int(k)-s.begin]] = k
	}
	for i := 1; i < len(sorted); i++ {
		if sorted[i] < sorted[i-1] {
			wrong++
		}
	}
	greatest := int32(-1)
	if len(sorted) > 0 {
		greatest = sorted[len(sorted)-1]
	}
	before := make([]int32, 1)
	if err := mpi.Exscan(s.c, []int32{greatest}, before, mpi.Max); err != nil {
		return 0, err
	}
	if s.c.Rank() > 0 && len(sorted) > 0 && sorted[0] < before[0] {
		wrong++
	}
	return mpi.AllreduceValue(s.c, wrong, mpi.Sum)
}
