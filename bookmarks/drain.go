package bookmarks

import "fmt"

// Drain tells when everything sent to this rank has been received.
type Drain struct {
	rank     int
	expected Counts
	open     Counts // by peer: how many bytes are missing
	started  bool
}

// NewDrain returns the drain of a rank to which its peers have sent expected (see Exchange.Expected).
func NewDrain(rank int, expected Counts) *Drain {
	return &Drain{rank: rank, expected: expected, open: append(Counts(nil), expected...)}
}

// Update compares expected with what has been received, by rank, and reports whether nothing is missing. If
// more was received than sent it returns an ErrProtocol that names both sides. recv is borrowed for the call.
func (d *Drain) Update(recv []uint64) (bool, error) {
	left := d.open[:0]
	for _, c := range d.open {
		want, have := d.expected.Of(c.Peer), recv[c.Peer]
		if have > want {
			return false, d.excess(c.Peer, have, want)
		}
		if have < want {
			left = append(left, Count{c.Peer, want - have})
		}
	}
	d.open = left
	// Peers without missing bytes are checked at the start and at the end. That is often enough to find a wrong
	// count, and seldom enough for many ranks.
	if !d.started || len(left) == 0 {
		d.started = true
		if err := d.check(recv); err != nil {
			return false, err
		}
	}
	return len(left) == 0, nil
}

func (d *Drain) check(recv []uint64) error {
	next := 0
	for peer, have := range recv {
		var want uint64
		if next < len(d.expected) && d.expected[next].Peer == peer {
			want = d.expected[next].Bytes
			next++
		}
		if have > want && peer != d.rank {
			return d.excess(peer, have, want)
		}
	}
	return nil
}

func (d *Drain) excess(peer int, have, want uint64) error {
	return fmt.Errorf("%w: rank %d has received %d bytes from rank %d, which has sent %d", ErrProtocol, d.rank, have, peer, want)
}

// Missing returns how many bytes are missing from each peer, as of the last Update. It is valid until the next
// Update.
func (d *Drain) Missing() Counts { return d.open }

// Waiting says in words what is missing, "" if nothing.
func (d *Drain) Waiting() string {
	if len(d.open) == 0 {
		return ""
	}
	s := fmt.Sprintf("%d bytes of rank %d", d.open[0].Bytes, d.open[0].Peer)
	if n := len(d.open) - 1; n > 0 {
		s += fmt.Sprintf(" and of %d more", n)
	}
	return s
}
