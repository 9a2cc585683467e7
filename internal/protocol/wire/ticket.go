package wire

import "encoding/json"

// Messages about how one node of a job reaches another, see package listener.

// TicketFor is the data of a Ticket that an agent asks with.
type TicketFor struct {
	Node  string `json:"node"`
	Store string `json:"store,omitempty"` // that it wants to read there, by its name in the agent's order
}

// Ticket is the answer.
type Ticket struct {
	Ticket json.RawMessage `json:"ticket,omitempty"` // a rendezvous.Ticket
	Store  string          `json:"store,omitempty"`  // its name there
	Head   bool            `json:"head,omitempty"`   // it is the head's own node: the head is nearest
	Err    string          `json:"err,omitempty"`    // why there is no way
}
