package wire

import (
	"time"

	"github.com/gorun-mpi/gorun/internal/storage/flush"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Flush orders a keeper to copy images of its node into another store, see package flush.
type Flush struct {
	From    Store             `json:"from"`
	FromSet string            `json:"from_set"`
	To      Store             `json:"to"`
	ToSet   string            `json:"to_set"`
	Pieces  []flush.Piece     `json:"pieces"`
	Env     rawstring.Strings `json:"env,omitempty"`   // with the credentials of object stores
	Rate    int64             `json:"rate,omitempty"`  // bytes a second; 0: no limit
	Merge   *Merge            `json:"merge,omitempty"` // merge images instead of copying them
}

// Merge makes a node merge several images into one for each of some ranks, with back-end By.
type Merge struct {
	By     string        `json:"by"`
	Seq    int           `json:"seq"`
	Images []MergedImage `json:"images"`
}

// MergedImage is one of them. FromSet, ToSet and Pieces of the order are not used.
type MergedImage struct {
	Name  string        `json:"name"`
	Base  int           `json:"base,omitempty"` // snapshot that it builds on
	Codec string        `json:"codec,omitempty"`
	From  []flush.Layer `json:"from"` // each builds on the next
}

// Flushed is the answer.
type Flushed struct {
	Err    string         `json:"err,omitempty"`
	CPU    time.Duration  `json:"cpu,omitempty"` // processor time used
	Merged []flush.Merged `json:"merged,omitempty"`
}
