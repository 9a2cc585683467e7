package jobtest_test

import (
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// TestTransports: which transport carries what, in jobs whose ranks all talk to
// each other and sleep in between.
func TestTransports(t *testing.T) {
	for name, c := range map[string]struct {
		rpi   []string
		nodes []int
		shy   string
		want  string
		notes []string
	}{
		"one node":          {rpi: []string{"local", "tcp"}, want: "local"},
		"two nodes":         {rpi: []string{"local", "tcp"}, nodes: []int{0, 0, 1, 1}, want: "local (2 pairs of ranks), tcp (4 pairs of ranks)", notes: []string{"local: 4 pairs of ranks are on different nodes"}},
		"a node each":       {rpi: []string{"local", "tcp"}, nodes: []int{0, 1, 2, 3}, want: "tcp", notes: []string{"local: 6 pairs of ranks are on different nodes"}},
		"one way":           {rpi: []string{"local", "tcp"}, shy: "3>1", want: "local (5 pairs of ranks), tcp (1 pairs of ranks)", notes: []string{"local: not between rank 1 and rank 3: it is shy"}},
		"one way, in nodes": {rpi: []string{"local", "tcp"}, nodes: []int{0, 0, 0, 1}, shy: "2>1", want: "local (2 pairs of ranks), tcp (4 pairs of ranks)", notes: []string{"local: 3 pairs of ranks are on different nodes", "local: not between rank 1 and rank 2: it is shy"}},
		"not to be had":     {rpi: []string{"absent", "local", "tcp"}, want: "local", notes: []string{"absent: ranks 0-3 cannot use it: not available here: no such memory"}},
		"tcp preferred":     {rpi: []string{"tcp", "local"}, nodes: []int{0, 0, 1, 1}, want: "tcp"},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 4
			opt := jobtest.Options{Dir: t.TempDir(), RPI: c.rpi, Nodes: c.nodes, Params: map[string]string{"local.shy": c.shy}}
			cluster := jobtest.New(n, opt)
			s := cluster.Transports()
			if s.String() != c.want || !reflect.DeepEqual(s.Notes, c.notes) {
				t.Errorf("%v, %q", &s, s.Notes)
			}
			nodes := c.nodes
			if nodes == nil {
				nodes = make([]int, n)
			}
			if got := cluster.Jobs[2].Nodes(); !slices.Equal(got, nodes) {
				t.Errorf("nodes %v", got)
			}
			err := ranks(cluster, func(w *mpi.Comm) error {
				for range 100 { // around a ring: all but two ranks wait
					if err := ring(w); err != nil {
						return err
					}
				}
				return mpi.Barrier(w)
			})()
			if err != nil {
				t.Fatal(err)
			}
			cluster.Stop()
		})
	}
}

// ring passes a message around all ranks.
func ring(w *mpi.Comm) error {
	me, n := w.Rank(), w.Size()
	p := message(10, 7)
	if me > 0 {
		if _, err := mpi.Recv(w, p, me-1, 0); err != nil {
			return err
		}
	}
	if err := mpi.Send(w, p, (me+1)%n, 0); err != nil || me > 0 {
		return err
	}
	if _, err := mpi.Recv(w, p, n-1, 0); err != nil {
		return err
	}
	return expect(p, 7)
}

// Ranks ask where another is when they first send to it, and after a restart again.
func TestAsked(t *testing.T) {
	var asked atomic.Int32
	c := jobtest.New(3, jobtest.Options{Dir: t.TempDir(), RPI: []string{"tcp"}, Asked: true, OnSend: func(m oob.Msg) {
		if m.Kind == oob.Located {
			asked.Add(1)
		}
	}})
	var told [2]int32
	there, goOn := make(chan struct{}), make(chan struct{})
	wait := ranks(c, func(w *mpi.Comm) error {
		for i := range told {
			if err := mpi.Bcast(w, make([]int64, 100), 0); err != nil {
				return err
			}
			if err := mpi.Barrier(w); err != nil {
				return err
			}
			if w.Rank() == 0 {
				told[i] = asked.Load()
			}
			if i == 0 && w.Rank() == 0 {
				close(there)
			}
			if i == 0 {
				<-goOn
			}
		}
		return nil
	})
	<-there
	if err := c.Revive("tcp"); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if told[0] == 0 || told[1] <= told[0] {
		t.Errorf("asked %d times before the restart, %d with what followed", told[0], told[1])
	}
}
