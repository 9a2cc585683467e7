package mirror

import (
	"fmt"

	"github.com/gorun-mpi/gorun/cr/mirror/internal/machine"
)

// Dump tells where a process stands, for tests that hang.
func (w *World) Dump() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := fmt.Sprintf("life %v", w.life)
	for n, k := range w.keeps {
		s += fmt.Sprintf("\n  %s: life %d waiting %v working %d early %d machine %+v", n, k.life, k.waiting, k.working, len(k.early), k.m)
	}
	return s
}

// Early counts the messages that a process has of what it has not opened yet.
func (w *World) Early(description string) int {
	k := w.keep(description)
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.early)
}

// Hold has pieces of a description be in use until release is called.
func (w *World) Hold(description string) (release func()) {
	k := w.keep(description)
	held := make(chan struct{})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spawn(func() { <-held })
	return func() { close(held) }
}

// Flip changes one bit of what a process holds of the image of a rank, and reports whether it holds any.
func (w *World) Flip(description string, rank int) bool {
	return w.flip(description, func(n machine.Name) bool { return n == machine.Image(rank) })
}

// FlipParity changes one bit of each parity that a process holds.
func (w *World) FlipParity(description string) bool {
	return w.flip(description, func(n machine.Name) bool { return n.Parity > 0 })
}

// FlipAny changes one bit of each piece that a process holds for others.
func (w *World) FlipAny(description string) bool {
	return w.flip(description, func(n machine.Name) bool { return n != machine.Image(w.Rank()) })
}

func (w *World) flip(description string, which func(machine.Name) bool) bool {
	k := w.keep(description)
	k.mu.Lock()
	defer k.mu.Unlock()
	flipped := false
	for n, p := range k.pieces {
		for i := range k.m.Slots(n) {
			if which(n) {
				p.slots[i].room[p.slots[i].meta.Size-1] ^= 4
				flipped = true
			}
		}
	}
	return flipped
}
