package tcpworld

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// magic begins each connection.
const magic = "gorun mirror 1\n\x00"

const nonceSize = 32

// shakeTime bounds a handshake.
const shakeTime = 10 * time.Second

// errSecret is of a peer that does not know the secret.
var errSecret = errors.New("the other end does not know the secret of this world")

func proof(secret []byte, role string, a, b []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(role))
	h.Write(a)
	h.Write(b)
	return h.Sum(nil)
}

// greet proves the secret to each other: dialer identifies the caller.
//
//	dialer: magic, nonce -->   <-- nonce, proof :listener   dialer: proof -->
func greet(c net.Conn, secret []byte, dialer bool) error {
	c.SetDeadline(time.Now().Add(shakeTime))
	mine, theirs, sum := make([]byte, nonceSize), make([]byte, nonceSize), make([]byte, sha256.Size)
	rand.Read(mine)
	if dialer {
		if _, err := c.Write(append([]byte(magic), mine...)); err != nil {
			return err
		}
		if err := readAll(c, theirs, sum); err != nil {
			return err
		}
		if !hmac.Equal(sum, proof(secret, "listener", mine, theirs)) {
			return errSecret
		}
		if _, err := c.Write(proof(secret, "dialer", theirs, mine)); err != nil {
			return err
		}
		return c.SetDeadline(time.Time{})
	}
	word := make([]byte, len(magic))
	if err := readAll(c, word, theirs); err != nil {
		return err
	}
	if string(word) != magic {
		return errors.New("it does not speak this protocol")
	}
	if _, err := c.Write(append(mine, proof(secret, "listener", theirs, mine)...)); err != nil {
		return err
	}
	if err := readAll(c, sum); err != nil {
		return err
	}
	if !hmac.Equal(sum, proof(secret, "dialer", mine, theirs)) {
		return errSecret
	}
	return c.SetDeadline(time.Time{})
}

func readAll(r io.Reader, bufs ...[]byte) error {
	for _, b := range bufs {
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
	}
	return nil
}

// note is what coordinator and members send each other, as JSON behind its length. One field is set; none is a ping.
type note struct {
	Hello *place `json:"hello,omitempty"`
	Taken *taken `json:"taken,omitempty"`
	View  *view  `json:"view,omitempty"`
	Lost  *lost  `json:"lost,omitempty"`
	Leave *leave `json:"leave,omitempty"`
	Over  *over  `json:"over,omitempty"`
}

// taken is the coordinator's answer to a hello.
type taken struct {
	Silence time.Duration `json:"silence_ns"` // of the coordinator: both ends ping four times within it
}

type lost struct {
	Life uint32 `json:"life"`
	Text string `json:"text"`
}

type over struct {
	Text string `json:"text,omitempty"`
}

// mostNote bounds a note, against lengths that were garbled: 100,000 ranks fit.
const mostNote = 16 << 20

func writeNote(w io.Writer, n note) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

func readNote(r io.Reader) (n note, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return n, err
	}
	k := binary.BigEndian.Uint32(size[:])
	if k > mostNote {
		return n, fmt.Errorf("a note of %d bytes", k)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(k)))
	if err == nil && len(b) < int(k) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return n, err
	}
	if v := n.View; v != nil && v.Rank >= len(v.Ranks) {
		return n, fmt.Errorf("rank %d of %d", v.Rank, len(v.Ranks))
	}
	return n, nil
}

// Connections between members begin with their line and carry frames: blocks on one, messages of the program on another, so that
// neither waits for the other.
//
//	line   life 4, from 4, kind 1
//	frame  length of the head 4 (of a message: its tag), length of the body 4, head, body
type line struct {
	life uint32
	from uint32
	kind uint8
}

const (
	blockLine uint8 = iota
	messageLine
)

const (
	mostHead = 16 << 20
	mostBody = 1 << 30
)

func (l line) encode() []byte {
	b := binary.BigEndian.AppendUint32(nil, l.life)
	b = binary.BigEndian.AppendUint32(b, l.from)
	return append(b, l.kind)
}

func readLine(r io.Reader) (l line, err error) {
	var b [9]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return l, err
	}
	l = line{binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint32(b[4:]), b[8]}
	if l.kind > messageLine {
		err = fmt.Errorf("a line of kind %d", l.kind)
	}
	return l, err
}

// frame is the beginning of a frame.
type frame struct{ first, body uint32 }

func (f frame) encode() []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, f.first), f.body)
}

func readFrame(r io.Reader, kind uint8) (f frame, err error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return f, err
	}
	f = frame{binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint32(b[4:])}
	if kind == blockLine && f.first > mostHead || f.body > mostBody {
		err = fmt.Errorf("a frame with lengths %d and %d", f.first, f.body)
	}
	return f, err
}
