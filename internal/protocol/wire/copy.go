package wire

import "encoding/json"

// Copy orders a holder to copy an image into the memory of its node, or to compute a shard there, see package holder.
type Copy struct {
	Set    string   `json:"set"`
	Piece  string   `json:"piece,omitempty"`
	Digest string   `json:"digest,omitempty"`
	From   []Source `json:"from,omitempty"`   // nodes that have it, the best first
	Rate   int64    `json:"rate,omitempty"`   // bytes a second that all such orders together read from other nodes; 0: no limit
	Parity *Parity  `json:"parity,omitempty"` // a shard is to be computed; the fields above but Set are empty
}

// Parity is a shard of a group of images.
type Parity struct {
	Shards int         `json:"shards"` // of the group
	Shard  int         `json:"shard"`  // this one
	Images []OneOfMany `json:"images"`
}

// OneOfMany is an image of a group, and the nodes that have it.
type OneOfMany struct {
	Piece  string   `json:"piece"`
	Size   int64    `json:"size"`
	Digest string   `json:"digest"`
	From   []Source `json:"from"`
}

// Source is a node that has an image.
type Source struct {
	Node   string          `json:"node"`
	Ticket json.RawMessage `json:"ticket"` // a rendezvous.Ticket to its door
}

// Copied is the answer.
type Copied struct {
	Err string `json:"err,omitempty"`
}
