package bookmarks_test

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/bookmarks"
)

// Of a million ranks only those that were talked to are listed.
func ExampleFromSlice() {
	sent := []uint64{0, 999, 0, 480} // by rank; this is rank 1
	c := bookmarks.FromSlice(sent, 1)
	fmt.Println(c, c.Of(3), c.Of(1))
	// Output: [{3 480}] 480 0
}

func ExampleCounts_Of() { ExampleFromSlice() }

// Any two ranks meet in exactly one step.
func ExampleStepOf() {
	fmt.Println(bookmarks.Steps(4), "steps")
	step := bookmarks.StepOf(1, 2, 4)
	peer, first := bookmarks.Partner(1, 4, step)
	fmt.Println("step", step, "rank 1 meets", peer, first)
	// Output:
	// 3 steps
	// step 0 rank 1 meets 2 true
}

func ExampleSteps() { ExampleStepOf() }

// carry carries bookmarks until nobody has one to send.
func carry(ranks []*bookmarks.Exchange) {
	for moved := true; moved; {
		moved = false
		for _, x := range ranks {
			if m, ok := x.Next(); ok {
				fmt.Println(m.From, "tells", m.To, "that it has sent", m.Sent)
				if err := ranks[m.To].Deliver(m.From, m.Sent); err != nil {
					fmt.Println(err)
				}
				moved = true
			}
		}
	}
}

func ExampleStaggered() {
	ranks := []*bookmarks.Exchange{
		bookmarks.Staggered(0, 2, bookmarks.Counts{{Peer: 1, Bytes: 480}}),
		bookmarks.Staggered(1, 2, bookmarks.Counts{{Peer: 0, Bytes: 96}}),
	}
	fmt.Println(ranks[1].Done(), ranks[1].Waiting())
	carry(ranks)
	fmt.Println(ranks[1].Done(), ranks[1].Expected())
	// Output:
	// false the bookmark of rank 0 (step 1 of 1)
	// 0 tells 1 that it has sent 480
	// 1 tells 0 that it has sent 96
	// true [{0 480}]
}

func ExampleExchange_Next()     { ExampleStaggered() }
func ExampleExchange_Deliver()  { ExampleStaggered() }
func ExampleExchange_Done()     { ExampleStaggered() }
func ExampleExchange_Expected() { ExampleStaggered() }
func ExampleExchange_Waiting()  { ExampleStaggered() }

// Only pairs that talked exchange; each rank is told how many will.
func ExampleSparse() {
	sent := []bookmarks.Counts{{{Peer: 2, Bytes: 480}}, nil, nil}
	var ranks []*bookmarks.Exchange
	for rank, c := range sent {
		ranks = append(ranks, bookmarks.Sparse(rank, len(sent), c))
	}
	for rank, n := range []int{0, 0, 1} {
		ranks[rank].Senders(n)
	}
	carry(ranks)
	fmt.Println(ranks[1].Expected(), ranks[2].Expected())
	// Output:
	// 0 tells 2 that it has sent 480
	// [] [{0 480}]
}

func ExampleExchange_Senders() { ExampleSparse() }

// A peer that is ahead may send its bookmark before the step it belongs to.
func ExampleExchange_Queued() {
	x := bookmarks.Staggered(3, 4, nil)
	x.Deliver(1, 96) // they meet later
	fmt.Println(x.Queued())
	x.Next()
	fmt.Println(x.Waiting())
	// Output:
	// 1
	// the bookmark of rank 0 (step 1 of 3)
}

func ExampleNewDrain() {
	d := bookmarks.NewDrain(1, bookmarks.Counts{{Peer: 0, Bytes: 480}})
	done, _ := d.Update([]uint64{432, 0}) // received, by rank
	fmt.Printf("%v %v %q\n", done, d.Missing(), d.Waiting())
	done, _ = d.Update([]uint64{480, 0})
	fmt.Printf("%v %v %q\n", done, d.Missing(), d.Waiting())

	_, err := d.Update([]uint64{481, 0}) // more than was ever sent
	fmt.Println(errors.Is(err, bookmarks.ErrProtocol))
	// Output:
	// false [{0 48}] "48 bytes of rank 0"
	// true [] ""
	// true
}

func ExampleDrain_Update()  { ExampleNewDrain() }
func ExampleDrain_Missing() { ExampleNewDrain() }
func ExampleDrain_Waiting() { ExampleNewDrain() }
