package opencl

import "sync"

// staging hands out the room for data in transit, in the order of a ring: what was taken first is free again first, when its
// command is done. What was read from the device is copied to its place then.
type staging struct {
	mu    sync.Mutex
	all   []byte
	parts []transit
	next  int // where the next part may begin
}

// transit is a part in use.
type transit struct {
	ticket uint64
	at, n  int
	dst    []byte // of a read
}

// segment is the size of a part at most: while one side copies it the other one copies those before, and it is in the cache still that
// both have in common.
const segment = 256 << 10

// take returns the place of n bytes, or the ticket to wait for before there may be room.
func (s *staging) take(ticket uint64, n int, dst []byte) (at int, wait uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = (n + 63) &^ 63
	at = s.next
	if len(s.parts) > 0 {
		oldest := s.parts[0]
		switch {
		case at > oldest.at && at+n > len(s.all): // not behind the others: before them
			at = 0
			fallthrough
		case at <= oldest.at:
			if at+n > oldest.at {
				return 0, oldest.ticket
			}
		}
	} else {
		at = 0
	}
	s.parts = append(s.parts, transit{ticket, at, n, dst})
	s.next = at + n
	return at, 0
}

// settle frees the parts whose commands are done.
func (s *staging) settle(done uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.parts) > 0 && s.parts[0].ticket <= done {
		p := s.parts[0]
		copy(p.dst, s.all[p.at:])
		s.parts = s.parts[1:]
	}
}
