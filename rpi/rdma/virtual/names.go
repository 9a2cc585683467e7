package virtual

import (
	"fmt"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// PeerPair is what the peer of a pair has to know. It stays valid over restarts.
type PeerPair struct {
	Pair, Domain ID
	Life         uint64
	Address      []byte
}

// RemoteRegion is what peers have to know of a region. It stays valid over restarts, until the region is closed.
type RemoteRegion struct {
	Region, Domain ID
	Length         int
	Life           uint64
	Real           provider.Remote
}

// Book is what IDs of one rank are in this life.
type Book struct {
	Pairs   []PeerPair
	Regions []RemoteRegion
}

// Pair returns what to tell the peer.
func (m *Machine) Pair(id ID) (PeerPair, error) {
	p := m.Pairs[id]
	if p == nil {
		return PeerPair{}, nothing(id)
	}
	return PeerPair{Pair: id, Domain: p.Domain, Life: m.Life, Address: p.address}, nil
}

// Region returns what to tell peers.
func (m *Machine) Region(id ID) (RemoteRegion, error) {
	r := m.Regions[id]
	if r == nil {
		return RemoteRegion{}, nothing(id)
	}
	if r.Void {
		return RemoteRegion{}, fmt.Errorf("%w: the memory of region %s is gone", ErrKey, id)
	}
	return RemoteRegion{Region: id, Domain: r.Domain, Length: r.Length, Life: m.Life, Real: r.own}, nil
}

// Book returns what this rank's IDs are, after Restart.
func (m *Machine) Book() Book {
	var b Book
	for _, p := range m.pairs() {
		if p.State != provider.Failed { // a peer may know of one in Reset, and connect to it later
			tell, _ := m.Pair(p.ID) // it is there
			b.Pairs = append(b.Pairs, tell)
		}
	}
	for _, id := range sorted(m.Regions) {
		if !m.Regions[id].Void {
			tell, _ := m.Region(id) // it is there
			b.Regions = append(b.Regions, tell)
		}
	}
	return b
}

// Learn notes the book of a peer, or of this rank where it talks to itself.
func (m *Machine) Learn(b Book) {
	for _, p := range b.Pairs {
		m.peers[p.Pair] = p
	}
	for _, r := range b.Regions {
		m.regions[r.Region] = r
	}
}

// real translates a peer's key for a pair.
func (m *Machine) real(p *pair, r *RemoteRegion, off uint64, n int) (provider.Remote, error) {
	if r.Domain != p.Peer.Domain {
		return provider.Remote{}, fmt.Errorf("%w: region %s is of domain %s, the peer of pair %s of domain %s", ErrKey, r.Region, r.Domain, p.ID, p.Peer.Domain)
	}
	now := *r
	if r.Life != m.Life {
		var ok bool
		if now, ok = m.regions[r.Region]; !ok {
			return provider.Remote{}, fmt.Errorf("%w: region %s was closed before the restart", ErrKey, r.Region)
		}
	}
	if off > uint64(now.Length) || uint64(n) > uint64(now.Length)-off {
		return provider.Remote{}, fmt.Errorf("%w: bytes %d to %d of region %s, which has %d", ErrKey, off, off+uint64(n), r.Region, now.Length)
	}
	return provider.Remote{Address: now.Real.Address + off, Key: now.Real.Key}, nil
}
