package main

import "testing"

// TestRuns lets small jobs through all the schedules; run itself compares what
// every rank has learned with the truth.
func TestRuns(t *testing.T) {
	for _, np := range []int{1, 2, 7, 8, 64} {
		pairs := np * (np - 1)
		r := run(job{schedule: "staggered", np: np, jitter: 2, agent: 3, peers: grid})
		if r.messages != pairs {
			t.Errorf("staggered, %d ranks: %d messages, want %d", np, r.messages, pairs)
		}
		r = run(job{schedule: "sparse", np: np, jitter: 2, agent: 3, peers: all})
		if want := pairs + 2*np + (np+2)/3; r.messages != want {
			t.Errorf("sparse, %d ranks: %d messages, want %d", np, r.messages, want)
		}
	}
	if r := run(job{schedule: "sparse", np: 27, agent: 4, peers: grid}); r.queue > 6 {
		t.Errorf("six neighbours, but %d bookmarks waited at a rank", r.queue)
	}
}
