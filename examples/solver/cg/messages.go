package cg

// MostNumbers is how many Sum is given at most.
const MostNumbers = 2 * len(accumulator{})

// Messages is how a rank hears from the others.
type Messages interface {
	// Fetch begins to fill x's halo: each of the neighbours gets what Pack gives.
	Fetch(x []float64) error
	// Fetched returns when the halo of the vector last given to Fetch is full.
	Fetched() error
	// Sum adds what all ranks have, number by number.
	Sum(numbers []int64) error
}

// Neighbour is another rank that shares entries with this one.
type Neighbour struct {
	Rank     int
	from, to int       // where its entries are in the local vector
	give     []int32   // own entries it needs, ascending
	buffer   []float64 // those, packed
}

// Halo is where the neighbour's entries belong in x.
func (n *Neighbour) Halo(x []float64) []float64 { return x[n.from:n.to] }

// Pack returns the entries of x that the neighbour needs, good until the next
// Pack.
func (n *Neighbour) Pack(x []float64) []float64 {
	for k, j := range n.give {
		n.buffer[k] = x[j]
	}
	return n.buffer
}
