package wire

import (
	"time"

	"github.com/gorun-mpi/gorun/internal/exact"
	"github.com/gorun-mpi/gorun/internal/flush"
)

// Flush orders a keeper to copy images of its node into another store, see package flush.
type Flush struct {
	From    Store         `json:"from"`
	FromSet string        `json:"from_set"`
	To      Store         `json:"to"`
	ToSet   string        `json:"to_set"`
	Pieces  []flush.Piece `json:"pieces"`
	Env     exact.Strings `json:"env,omitempty"`  // with the credentials of object stores
	Rate    int64         `json:"rate,omitempty"` // bytes a second; 0: as fast as it goes
}

// Flushed is the answer.
type Flushed struct {
	Err string        `json:"err,omitempty"`
	CPU time.Duration `json:"cpu,omitempty"` // that it has taken
}
