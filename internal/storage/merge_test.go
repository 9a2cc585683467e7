package storage

import (
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
)

// chained is a snapshot whose ranks' images build on these, in a folder of the nodes.
func chained(seq int, bases ...int) *snapshot.Snapshot {
	s := &snapshot.Schema{Sequence: seq, NP: len(bases), Store: store.KindMem}
	for rank, base := range bases {
		s.Images = append(s.Images, snapshot.Image{Rank: rank, File: snapshot.ImageFile(rank), Base: base, Digest: fmt.Sprint(seq, rank)})
	}
	return &snapshot.Snapshot{Schema: s}
}

// Of each rank those images are merged that the level lacks; one whose image was full in between needs no more.
func TestMergedLayers(t *testing.T) {
	chain := []*snapshot.Snapshot{chained(9, 7, 7), chained(7, 5, 0), chained(5, 3, 3), chained(3, 0, 0)}
	for _, c := range []struct {
		has  mergedLast
		want string
	}{
		{mergedLast{}, "[0 1 2 3] on 0, [0 1] on 0"},
		{mergedLast{state: 3, snap: chained(3)}, "[0 1 2] on 3, [0 1] on 0"},
		{mergedLast{state: 5, snap: chained(6)}, "[0 1] on 6, [0 1] on 0"},
		{mergedLast{state: 7, snap: chained(8)}, "[0] on 8, [0] on 8"},
	} {
		m := &merging{chain: chain, has: c.has}
		text := ""
		for rank := range 2 {
			layers, base := m.layers(rank)
			if text != "" {
				text += ", "
			}
			text += fmt.Sprint(layers, " on ", base)
		}
		if text != c.want {
			t.Errorf("%+v: %s, want %s", c.has.state, text, c.want)
		}
	}
}

// What is merged stands before the snapshot whose state it has, so that a restart tries that first.
func TestAddMerged(t *testing.T) {
	l := &ear{}
	sv := &Service{head: l, chain: []commit{{snap: chained(1)}, {snap: chained(3), note: "three"}, {snap: chained(5)}}}
	sv.levels.merged = make([]mergedLast, 1)
	order := func() (all []int) {
		for _, c := range sv.chain {
			all = append(all, c.snap.Schema.Sequence)
		}
		return all
	}
	sv.addMerged(0, &merging{chain: []*snapshot.Snapshot{chained(3)}}, chained(4))
	if got := fmt.Sprint(order()); got != "[1 4 3 5]" {
		t.Error(got)
	}
	if n := l.kept[1].Note; n != "three" {
		t.Errorf("what the head has noted of snapshot 3 is not known of 4, which has its state: %v", n)
	}
	sv.addMerged(0, &merging{chain: []*snapshot.Snapshot{chained(5)}, has: mergedLast{depth: 1}}, chained(6))
	if got := fmt.Sprint(order()); got != "[1 4 3 6 5]" || sv.levels.merged[0].depth != 1 || sv.levels.merged[0].state != 5 {
		t.Error(got, sv.levels.merged)
	}
}
