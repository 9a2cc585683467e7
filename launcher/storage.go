package launcher

import (
	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// storage is the state of an incarnation's snapshots.
type storage struct {
	busy  bool   // a commit is being written
	phase string // of the running attempt
}

func (inc *incarnation) beginFolder()                           {}
func (inc *incarnation) commit(seq int, images []oob.ImageInfo) {}
func (inc *incarnation) discard(seq int)                        {}
func (inc *incarnation) answered(d *ckpt.Done)                  {}
func (h *head) restart(v *verdict)                              {}
