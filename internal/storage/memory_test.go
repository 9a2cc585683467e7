package storage

import (
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// TestForget: the newest snapshot in memory stays, and the newest that has all its copies. A weak one never costs the
// last strong one.
func TestForget(t *testing.T) {
	for chain, want := range map[string][]int{
		"s": nil, "w": nil, "ss": {1}, "sw": nil, "ws": {1}, "www": {2, 1}, "sws": {2, 1}, "ssww": {3, 1}, "d": nil, "sds": {1}, "dsw": nil,
	} {
		sv := &Service{}
		for i, kind := range chain {
			s := &snapshot.Snapshot{Schema: &snapshot.Schema{Sequence: i + 1, Store: "mem", Set: "s"}}
			if kind == 'd' {
				s.Schema.Store, s.Schema.Set = "", ""
			}
			sv.chain = append(sv.chain, commit{snap: s, weak: kind == 'w'})
		}
		var got []int
		for _, s := range sv.forget() {
			got = append(got, s.Schema.Sequence)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v are dropped, want %v", chain, got, want)
		}
	}
}
