package wire

import "encoding/json"

// Copy orders a holder to copy an image into the memory of its node, see package holder.
type Copy struct {
	Set    string   `json:"set"`
	Piece  string   `json:"piece"`
	Digest string   `json:"digest"`
	From   []Source `json:"from"` // who has it, the best first
}

// Source is a node that has an image.
type Source struct {
	Node   string          `json:"node"`
	Ticket json.RawMessage `json:"ticket"` // a home.Ticket to its door
}

// Copied is the answer.
type Copied struct {
	Err string `json:"err,omitempty"`
}
