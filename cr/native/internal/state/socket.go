package state

import "fmt"

// Socket is one that is made again: it is connected to none, or to one of the process's own.
type Socket struct {
	Domain   int      `json:"domain"`
	Type     int      `json:"type"`
	Protocol int      `json:"protocol,omitempty"`
	Options  []Option `json:"options,omitempty"` // that are not as a new one has them
	Local    []byte   `json:"local,omitempty"`   // its address, as the kernel has it
	Unlinked bool     `json:"unlinked,omitempty"`
	Peer     []byte   `json:"peer,omitempty"` // where its datagrams go
	Listens  bool     `json:"listens,omitempty"`
	Backlog  int      `json:"backlog,omitempty"`

	// Of a pair: the inode of the other end, which the process has, too, or Alone if it
	// has been closed; what waits to be read here, and which ways are shut down.
	Other uint64    `json:"other,omitempty"`
	Alone bool      `json:"alone,omitempty"`
	Queue []Message `json:"queue,omitempty"`
	Shut  int       `json:"shut,omitempty"`
}

// Option is a socket option.
type Option struct {
	Level int    `json:"level"`
	Name  int    `json:"name"`
	Value []byte `json:"value"`
}

// Message is what waits in a socket, with descriptors of the process that came with it.
type Message struct {
	Data []byte `json:"data"`
	FDs  []int  `json:"fds,omitempty"`
	Of   []int  `json:"of,omitempty"` // whose each of them is, by its id; none: all the process's own
}

// Bounds of sockets.
const (
	MaxAddress  = 128
	maxOptions  = 64
	maxMessages = 1 << 16
	maxPassed   = 253 // descriptors in one message
)

// Paired tells the end of a pair.
func (s *Socket) Paired() bool { return s.Other != 0 || s.Alone }

// validSocket checks one, and that the two ends of a pair name each other.
func (s *State) validSocket(f *File, byFD map[int]*File) error {
	k := f.Socket
	switch {
	case f.Kind != FileSocket:
		return fmt.Errorf("a socket of kind %.40q", f.Kind)
	case len(k.Local) > MaxAddress || len(k.Peer) > MaxAddress || len(k.Options) > maxOptions || len(k.Queue) > maxMessages:
		return fmt.Errorf("a socket with addresses of %d and %d bytes, %d options and %d messages", len(k.Local), len(k.Peer), len(k.Options), len(k.Queue))
	case k.Shut < 0 || k.Shut > 3 || k.Alone && k.Other != 0:
		return fmt.Errorf("a socket shut down by %d", k.Shut)
	}
	for _, o := range k.Options {
		if len(o.Value) == 0 || len(o.Value) > 64 {
			return fmt.Errorf("socket option %d of %d bytes", o.Name, len(o.Value))
		}
	}
	for _, m := range k.Queue {
		if len(m.FDs) > maxPassed {
			return fmt.Errorf("%d descriptors in a message", len(m.FDs))
		}
	}
	return nil // what it refers to may be another's, see validTargets
}
