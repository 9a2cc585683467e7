package tcp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

const version = 1

const (
	helloMagic   = "gorunTCP"
	verdictMagic = "gRUN"
	helloSize    = 64
	verdictSize  = 8
	nonceSize    = 32
	proofSize    = sha256.Size
	answerSize   = nonceSize + proofSize
)

// hello is the first message of an initiator.
type hello struct {
	version     uint16
	order       byte
	from, to    int
	size        int
	incarnation uint64
	nonce       [nonceSize]byte
}

func (h *hello) encode(p []byte) {
	copy(p, helloMagic)
	binary.LittleEndian.PutUint16(p[8:], h.version)
	p[10], p[11] = h.order, 0
	binary.LittleEndian.PutUint32(p[12:], uint32(h.from))
	binary.LittleEndian.PutUint32(p[16:], uint32(h.to))
	binary.LittleEndian.PutUint32(p[20:], uint32(h.size))
	binary.LittleEndian.PutUint64(p[24:], h.incarnation)
	copy(p[32:], h.nonce[:])
}

// decode reports whether p is a hello at all, of any version.
func (h *hello) decode(p []byte) bool {
	if len(p) != helloSize || string(p[:8]) != helloMagic {
		return false
	}
	h.version = binary.LittleEndian.Uint16(p[8:])
	h.order = p[10]
	h.from = int(binary.LittleEndian.Uint32(p[12:]))
	h.to = int(binary.LittleEndian.Uint32(p[16:]))
	h.size = int(binary.LittleEndian.Uint32(p[20:]))
	h.incarnation = binary.LittleEndian.Uint64(p[24:])
	copy(h.nonce[:], p[32:])
	return true
}

// code is an acceptor's answer to a caller.
type code uint8

const (
	codeGo      code = 1 + iota // go on; the second time: frames may begin
	codeLater                   // a checkpoint begins, or too many callers: try again
	codeYield                   // an attempt of the acceptor, the lower rank, is under way
	codeVersion                 // refusals for good from here on
	codeOrder
	codeIncarnation
	codeRank
	codeProof
	codeAgain
	codeGone
)

func (c code) String() string {
	switch c {
	case codeVersion:
		return "it speaks another version of the protocol"
	case codeOrder:
		return "it has another byte order"
	case codeIncarnation:
		return "it belongs to another incarnation of the job"
	case codeRank:
		return "it is another rank, or of a job of another size"
	case codeProof:
		return "our secret is not its secret"
	case codeAgain:
		return "it is connected to this rank already"
	case codeGone:
		return "it has given this rank up"
	}
	return fmt.Sprintf("code %d", uint8(c))
}

func encodeVerdict(c code) []byte {
	p := append(make([]byte, 0, verdictSize+answerSize), verdictMagic...)
	return append(p, version, 0, nativeOrder, byte(c))
}

func decodeVerdict(p []byte) (code, error) {
	if len(p) != verdictSize || string(p[:4]) != verdictMagic {
		return 0, fmt.Errorf("%w: what answers is not a rank", ErrRefused)
	}
	c := code(p[7])
	// A refusal of these two kinds explains more than the fields do.
	if c == codeVersion || c == codeOrder {
		return c, nil
	}
	if v := binary.LittleEndian.Uint16(p[4:]); v != version {
		return 0, fmt.Errorf("%w: version %d, this is version %d", ErrRefused, v, version)
	}
	if p[6] != nativeOrder {
		return 0, fmt.Errorf("%w: %v", ErrRefused, codeOrder)
	}
	if c < codeGo || c > codeGone {
		return 0, fmt.Errorf("%w: verdict %d", ErrRefused, c)
	}
	return c, nil
}

// The two sides prove themselves under different labels. So neither proof can be played back as the other.
const (
	labelAcceptor  = "gorun tcp acceptor"
	labelInitiator = "gorun tcp initiator"
)

// prove computes a side's proof over the hello as it was sent and the acceptor's nonce.
func prove(secret []byte, label string, hello, nonce []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(label))
	mac.Write(hello)
	mac.Write(nonce)
	return mac.Sum(nil)
}

// examine judges a hello before any proof. It checks the version first, because the other fields have the
// meaning of that version.
func (m *Module) examine(h *hello) code {
	switch {
	case h.version != version:
		return codeVersion
	case h.order != nativeOrder:
		return codeOrder
	case h.incarnation != m.env.Incarnation:
		return codeIncarnation
	case h.size != m.env.Size || h.to != m.env.Rank || h.from < 0 || h.from >= m.env.Size || h.from == m.env.Rank:
		return codeRank
	}
	return codeGo
}

// decide decides about the connection of a caller that has proved to be rank from. The package comment says why
// exactly one of two connections survives.
func (m *Module) decide(from int) code {
	switch m.peer(from).state {
	case up:
		return codeAgain
	case down:
		return codeGone
	case dialing:
		if m.env.Rank < from {
			return codeYield
		}
	}
	return codeGo
}
