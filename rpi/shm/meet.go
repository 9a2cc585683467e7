package shm

import (
	"errors"
	"fmt"
	"os"

	"github.com/gorun-mpi/gorun/internal/system/endian"
	"golang.org/x/sys/unix"
)

// here returns how many ranks have a segment.
func here(addrs [][]byte) (n int) {
	for _, a := range addrs {
		if a != nil {
			n++
		}
	}
	return n
}

// openPeer returns a descriptor of a peer's segment, which the caller closes.
func (m *Module) openPeer(rank int) (int, error) {
	a := &m.peers[rank].addr
	switch {
	case a.machine != m.addr.machine:
		return -1, fmt.Errorf("it is on another machine, in another container or of another user (%s; this is %s)", a.machine, m.addr.machine)
	case a.order != endian.Name:
		return -1, errors.New("it has another byte order")
	case a.size != m.layout.size:
		return -1, fmt.Errorf("its segment has %d bytes, this rank's %d", a.size, m.layout.size)
	}
	return openSegment(a.pid, a.fd, a.size)
}

// sight makes sure that a peer's segment can be mapped.
func (m *Module) sight(rank int) error {
	fd, err := m.openPeer(rank)
	if err != nil {
		return err
	}
	return os.NewSyscallError("close", unix.Close(fd))
}

// meet maps the segment of a peer.
func (m *Module) meet(rank int) error {
	pr := &m.peers[rank]
	fd, err := m.openPeer(rank)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	mem, err := unix.Mmap(fd, 0, m.layout.control, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	pr.ctl = control{mem, m.env.Size}
	if !pr.ctl.sealed(m.proof(rank, pr.addr.nonce[:])) {
		pr.unmap()
		return errors.New("its segment does not prove that it belongs to this job")
	}
	size := m.layout.size
	if pr.data, err = unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		pr.unmap()
		return os.NewSyscallError("mmap", err)
	}
	if pr.pool, err = unix.Mmap(fd, int64(m.layout.pool), size-m.layout.pool, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		pr.unmap()
		return os.NewSyscallError("mmap", err)
	}
	pr.bell, pr.base = pr.ctl.bell(), uintptr(*pr.ctl.base())
	pr.out.taken = pr.ctl.taken(m.env.Rank)
	pr.in.taken = m.ctl.taken(rank)
	pr.mapped = true
	if m.params.direct > 0 {
		m.trusted(rank) // report denials now
	}
	return nil
}

// join reports whether a peer's memory is mapped, and maps it at its first use.
func (m *Module) join(peer int) bool { return m.peers[peer].mapped || m.meetLate(peer) }

// meetLate maps a peer's segment at its first use. It gives up a peer whose segment could be
// opened at the start and cannot be mapped now.
func (m *Module) meetLate(peer int) bool {
	p := &m.peers[peer]
	if !p.reach || p.down {
		return false
	}
	if err := m.meet(peer); err != nil {
		m.fail(peer, fmt.Errorf("its memory cannot be mapped: %w", err))
	}
	return p.mapped
}

func (p *peer) unmap() {
	for _, mem := range [][]byte{p.ctl.mem, p.data, p.pool} {
		if mem != nil {
			unix.Munmap(mem)
		}
	}
	*p = peer{addr: p.addr, known: p.known, reach: p.reach, down: p.down, why: p.why}
}

// Reaches reports whether the peer's memory is mapped here, or can be.
func (m *Module) Reaches(peer int) bool {
	return peer >= 0 && peer < len(m.peers) && m.peers[peer].reach
}

// Unreached says why Reaches reports false for a peer whose address is known.
func (m *Module) Unreached(peer int) error {
	if p := &m.peers[peer]; p.known && !p.reach {
		return m.naming(peer, p.why)
	}
	return nil
}

// Forgo makes Reaches report false.
func (m *Module) Forgo(peer int) {
	p := &m.peers[peer]
	p.why = errors.New("it does not reach this rank")
	p.reach = false
	p.unmap()
}
