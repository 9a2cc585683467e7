package shm

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const version = 1

const nonceSize = 16

// address is where a rank's segment is found. As published it is
//
//	0 version u8   1 byte order u8   2 -  4 pid u32 LE   8 descriptor u32
//	12 size of the segment u32   16 nonce [16]   32 the machine, a string
type address struct {
	order   byte
	pid, fd int
	size    int
	nonce   [nonceSize]byte
	machine string
}

func (a *address) encode() []byte {
	p := make([]byte, 32, 32+len(a.machine))
	p[0], p[1] = version, a.order
	binary.LittleEndian.PutUint32(p[4:], uint32(a.pid))
	binary.LittleEndian.PutUint32(p[8:], uint32(a.fd))
	binary.LittleEndian.PutUint32(p[12:], uint32(a.size))
	copy(p[16:], a.nonce[:])
	return append(p, a.machine...)
}

func decodeAddress(p []byte) (a address, err error) {
	if len(p) < 32 {
		return a, fmt.Errorf("address of %d bytes", len(p))
	}
	if p[0] != version {
		return a, fmt.Errorf("it is of version %d, this is version %d", p[0], version)
	}
	a.order = p[1]
	a.pid = int(int32(binary.LittleEndian.Uint32(p[4:])))
	a.fd = int(int32(binary.LittleEndian.Uint32(p[8:])))
	a.size = int(binary.LittleEndian.Uint32(p[12:]))
	copy(a.nonce[:], p[16:])
	a.machine = string(p[32:])
	return a, nil
}

// A segment begins with a magic, which tells it from other files, and a proof that a rank of this
// incarnation made it. Together they are its mark.
const (
	magic     = "gorunSHM"
	proofSize = sha256.Size
	markSize  = len(magic) + proofSize
)

// seal writes the mark of a segment.
func (c control) seal(proof []byte) { copy(c.mem[copy(c.mem, magic):], proof) }

// sealed reports whether the segment has the mark with that proof.
func (c control) sealed(proof []byte) bool {
	return string(c.mem[:len(magic)]) == magic && hmac.Equal(c.mem[len(magic):len(magic)+proofSize], proof)
}

// proof returns the proof of a rank's segment. Only a process that knows the secret of the
// incarnation can make it.
func (m *Module) proof(rank int, nonce []byte) []byte {
	mac := hmac.New(sha256.New, m.env.Secret)
	fmt.Fprintf(mac, "gorun shm segment %d %d %d ", m.env.Incarnation, rank, m.env.Size)
	mac.Write(nonce)
	return mac.Sum(nil)
}

// check makes sure that /proc shows this process to itself under its own pid. If it does not,
// the process is not shown at all.
func (a *address) check() error {
	fd, err := openSegment(a.pid, a.fd, a.size)
	if err != nil {
		return err
	}
	return os.NewSyscallError("close", unix.Close(fd))
}
