package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strings"
	"unicode"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
)

type op uint8

const (
	opOpen op = 1 + iota
	opRead
	opClose
	opStat
	opList
	opSets
	opRemove
	opCheck
	ops
)

// Status of an answer.
const (
	isRequest = 0
	isDone    = 1
	isAlive   = 2
	isError   = 16 // and above: an index of reasons
)

// reasons are the errors that keep their identity on the way.
var reasons = []error{
	errors.New("it failed"), fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, store.ErrName, store.ErrUnreachable, store.ErrReadOnly,
	store.ErrNotRegular, image.ErrCorrupt, image.ErrTruncated, image.ErrNotImage, image.ErrVersion,
}

const headSize = 12

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// frame is a request or an answer.
type frame struct {
	op     op
	status uint8
	id     uint32
	body   []byte
}

// begin makes room for a frame with n bytes of body.
func begin(o op, status uint8, id uint32, n int) []byte {
	p := make([]byte, headSize, headSize+n)
	p[0], p[1] = byte(o), status
	le.PutUint32(p[4:], id)
	return p
}

// seal puts in the sum of a frame whose body is complete.
func seal(p []byte) []byte {
	le.PutUint32(p[8:], sumOf(p))
	return p
}

func sumOf(p []byte) uint32 {
	return crc32.Update(crc32.Checksum(p[:8], castagnoli), castagnoli, p[headSize:])
}

// parse reads a frame. Its body aliases p.
func parse(p []byte) (frame, error) {
	if len(p) < headSize {
		return frame{}, fmt.Errorf("%w: %d bytes", ErrFrame, len(p))
	}
	f := frame{op(p[0]), p[1], le.Uint32(p[4:]), p[headSize:]}
	limit := maxAnswer
	if f.status == isRequest {
		limit = maxRequest
	}
	switch {
	case le.Uint32(p[8:]) != sumOf(p):
		return frame{}, fmt.Errorf("%w: wrong sum", ErrFrame)
	case f.op < opOpen || f.op >= ops, p[2] != 0 || p[3] != 0, f.status > isAlive && f.status < isError:
		return frame{}, fmt.Errorf("%w: op %d, status %d", ErrFrame, f.op, f.status)
	case len(f.body) > limit:
		return frame{}, fmt.Errorf("%w: %d bytes, at most %d", ErrFrame, len(f.body), limit)
	}
	return f, nil
}

// request is what a client asks for.
type request struct {
	op     op
	id     uint32
	store  string
	set    string
	piece  string
	handle uint32
	off    uint64
	n      uint32
	whole  bool
}

func appendString(p []byte, s string) []byte {
	return append(le.AppendUint16(p, uint16(len(s))), s...)
}

func (r *request) encode() []byte {
	p := begin(r.op, isRequest, r.id, 16+len(r.store)+len(r.set)+len(r.piece))
	switch r.op {
	case opRead:
		p = le.AppendUint32(le.AppendUint64(le.AppendUint32(p, r.handle), r.off), r.n)
		return seal(p)
	case opClose:
		return seal(le.AppendUint32(p, r.handle))
	}
	p = appendString(appendString(p, r.store), r.set)
	switch r.op {
	case opOpen, opStat:
		p = appendString(p, r.piece)
	case opCheck:
		whole := byte(0)
		if r.whole {
			whole = 1
		}
		p = append(appendString(p, r.piece), whole)
	}
	return seal(p)
}

// parseRequest reads a request of a client, and checks its names.
func parseRequest(f frame) (r request, err error) {
	d := decoder{p: f.body}
	r.op, r.id = f.op, f.id
	switch f.op {
	case opRead:
		r.handle, r.off, r.n = d.u32(), d.u64(), d.u32()
	case opClose:
		r.handle = d.u32()
	default:
		r.store, r.set = d.string(), d.string()
		if f.op == opOpen || f.op == opStat || f.op == opCheck {
			r.piece = d.string()
		}
		if f.op == opCheck {
			b := d.u8()
			r.whole = b == 1
			d.bad = d.bad || b > 1
		}
	}
	if d.bad || len(d.p) > 0 || f.status != isRequest || r.n > MaxRead || r.off > 1<<62 {
		return r, fmt.Errorf("%w: request of op %d with %d bytes", ErrFrame, f.op, len(f.body))
	}
	return r, nil
}

// check checks the names of a request. A wrong one is the client's error and breaks nothing.
func (r *request) check() error {
	if r.op == opRead || r.op == opClose {
		return nil
	}
	if err := store.CheckSet(r.set); err != nil {
		return err
	}
	if r.op == opOpen || r.op == opStat || r.op == opCheck {
		return store.CheckPiece(r.piece)
	}
	return nil
}

// decoder takes values from the front of p. What is not there makes it bad.
type decoder struct {
	p   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if len(d.p) < n {
		d.bad, d.p = true, nil
		return make([]byte, n)
	}
	b := d.p[:n]
	d.p = d.p[n:]
	return b
}

func (d *decoder) u8() byte    { return d.take(1)[0] }
func (d *decoder) u32() uint32 { return le.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return le.Uint64(d.take(8)) }
func (d *decoder) string() string {
	n := int(le.Uint16(d.take(2)))
	if n > len(d.p) {
		d.bad, d.p = true, nil
		return ""
	}
	return string(d.take(n))
}

// failed encodes an error as an answer.
func failed(r *request, err error) []byte {
	status := uint8(isError)
	for i, reason := range reasons {
		if errors.Is(err, reason) {
			status = uint8(isError + i)
			break
		}
	}
	text := err.Error()
	text = text[:min(len(text), maxText)]
	return seal(append(begin(r.op, status, r.id, len(text)), text...))
}

// farError is an error of the other side.
type farError struct {
	text   string
	reason error
}

func (e *farError) Error() string { return e.text }
func (e *farError) Unwrap() error { return e.reason }

// errorOf decodes an error. Its text goes to terminals, so it is text.
func errorOf(f frame) error {
	clean := func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}
	e := &farError{text: strings.Map(clean, string(f.body[:min(len(f.body), maxText)]))}
	if i := int(f.status) - isError; i < len(reasons) {
		e.reason = reasons[i]
	}
	return e
}
