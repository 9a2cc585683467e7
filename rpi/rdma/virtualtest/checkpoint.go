package virtualtest

import (
	"bytes"

	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// checkpoint stops all ranks and lets them go on in one of the ways that there are.
func (w *world) checkpoint() {
	for _, r := range w.ranks {
		r.dev.Quiesce()
	}
	w.until("a checkpoint", func() bool {
		all := true
		for _, r := range w.ranks {
			quiet, err := r.dev.Quiet()
			w.check(err)
			all = quiet && all
		}
		w.tell()
		return all
	})
	switch w.rng.IntN(3) {
	case 0:
		for _, r := range w.ranks {
			r.dev.Continue()
		}
	case 1:
		w.restart(func(r *rank) {})
	case 2: // as in another process: nothing is left but the image and the program's memory, which lies elsewhere
		w.restart(func(r *rank) {
			image, err := r.dev.MarshalBinary()
			w.check(err)
			r.memory = bytes.Clone(r.memory)
			r.dev, err = virtual.Load(image, func(virtual.ID) []byte { return r.memory })
			w.check(err)
		})
	}
}

// tell brings each rank what the others count.
func (w *world) tell() {
	for _, r := range w.ranks {
		to := make([][]virtual.Count, w.Ranks)
		for _, c := range r.dev.Counts() {
			to[c.To.Rank()] = append(to[c.To.Rank()], c)
		}
		for peer, counts := range to {
			if peer != r.id {
				w.ranks[peer].dev.Tell(r.id, counts)
			}
		}
	}
}

// restart goes on with other devices, after each rank has been loaded.
func (w *world) restart(load func(*rank)) {
	w.life++
	for _, r := range w.ranks {
		old := r.dev.Real()
		load(r)
		if w.Abandon {
			old.Abandon()
		} else {
			w.check(old.Close())
		}
	}
	devices, err := w.Open(w.life)
	w.check(err)
	var books []virtual.Book
	for i, r := range w.ranks {
		w.check(r.dev.Restart(devices[i]))
		books = append(books, r.dev.Book())
	}
	for _, r := range w.ranks {
		for _, b := range books {
			r.dev.Learn(b)
		}
		w.check(r.dev.Resume())
	}
}
