package rendezvous

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
)

// protocol is the name of this protocol's version, agreed on within the handshake.
const protocol = "gorun-home/1"

// Sizes of the two frames, see the package comment.
const (
	whoSize    = 20
	claimSize  = whoSize + sha256.Size
	answerSize = 1 + sha256.Size
)

// Verdicts, the first byte of an answer.
const (
	accepted = 1
	refused  = 2
)

// errFrame says that the other side speaks another protocol.
var errFrame = errors.New("not a frame of this protocol")

// claim is a caller's frame: its identity, and the proof.
type claim struct {
	identity
	proof [sha256.Size]byte
}

func (c *claim) append(dst []byte) []byte { return append(c.who(dst), c.proof[:]...) }

// who appends the part that the proofs cover.
func (id identity) who(dst []byte) []byte {
	dst = append(dst, "home"...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(id.node))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(id.agent))
	return binary.LittleEndian.AppendUint64(dst, uint64(id.life))
}

// parseClaim reads a caller's frame.
func parseClaim(p []byte) (claim, error) {
	if len(p) != claimSize || string(p[:4]) != "home" {
		return claim{}, errFrame
	}
	le := binary.LittleEndian
	c := claim{identity: identity{int(int32(le.Uint32(p[4:]))), int(int32(le.Uint32(p[8:]))), int(le.Uint64(p[12:]))}}
	copy(c.proof[:], p[whoSize:])
	if err := c.check(); err != nil {
		return claim{}, fmt.Errorf("%w: %v", errFrame, err)
	}
	return c, nil
}

// parseAnswer reads a home's frame.
func parseAnswer(p []byte) (verdict byte, proof [sha256.Size]byte, err error) {
	if len(p) != answerSize || p[0] != accepted && p[0] != refused {
		return 0, proof, errFrame
	}
	copy(proof[:], p[1:])
	return p[0], proof, nil
}

// The two sides of a connection, as their proofs name them. A proof of one is not valid for the
// other.
const (
	asCaller = "gorun home 1 caller"
	asHome   = "gorun home 1 home"
)

// prove computes what side proves of the caller id, on the connection whose exporter gave x.
func prove(token [32]byte, side string, x []byte, id identity) (proof [sha256.Size]byte) {
	h := hmac.New(sha256.New, token[:])
	h.Write([]byte(side))
	h.Write([]byte{0})
	h.Write(x)
	h.Write(id.who(nil))
	h.Sum(proof[:0])
	return proof
}

// exported returns the bytes that only the two ends of this connection know.
func exported(c *tls.Conn) ([]byte, error) {
	s := c.ConnectionState()
	if s.NegotiatedProtocol != protocol {
		return nil, fmt.Errorf("%w: it did not ask for %s", errFrame, protocol)
	}
	return s.ExportKeyingMaterial("EXPORTER gorun home 1", nil, 32)
}
