package mpi

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Codec turns any Go value into bytes and back. Decode gets a pointer. Both
// may be called by several goroutines at once.
type Codec interface {
	Encode(w io.Writer, v any) error
	Decode(r io.Reader, ptr any) error
}

// Gob is the default codec, encoding/gob: exported fields, maps, slices,
// pointers; interfaces need gob.Register. Each message describes its types
// in full.
var Gob Codec = gobCodec{}

type gobCodec struct{}

// Encode makes an error of what gob panics with, as of a nil pointer.
func (gobCodec) Encode(w io.Writer, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return gob.NewEncoder(w).Encode(v)
}

func (gobCodec) Decode(r io.Reader, ptr any) error { return gob.NewDecoder(r).Decode(ptr) }

// objectType marks messages made by a codec. So a Recv of numbers does not take one for numbers.
var objectType = &engine.Type{ID: engine.ObjectType, Size: 1, Name: "object", Swap: func([]byte) {}}

// SendObject sends any Go value that the codec of c can encode (Gob unless
// WithCodec says otherwise). Errors: as Send; those of the codec.
func SendObject(c *Comm, v any, dst, tag int) error {
	p, err := c.encodeFor(v, dst, tag)
	if err != nil {
		return c.failPeer("SendObject", "destination", dst, tag, err)
	}
	return c.send("SendObject", objectType, nil, p, dst, tag, engine.Standard)
}

// IsendObject begins SendObject. v is encoded before the call returns, and is the caller's again. Errors: as Isend; those of the
// codec.
func IsendObject(c *Comm, v any, dst, tag int) (Request, error) {
	p, err := c.encodeFor(v, dst, tag)
	if err != nil {
		return c.refused(opIsendObject, dst, tag, err)
	}
	return c.isend(opIsendObject, objectType, p, dst, tag)
}

// encodeFor returns v as the bytes of a message.
func (c *Comm) encodeFor(v any, dst, tag int) ([]byte, error) {
	if err := c.checkSend(dst, tag); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := c.codec.Encode(&b, v); err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", v, err)
	}
	return b.Bytes(), nil
}

// RecvObject receives a value sent with SendObject into *ptr. The status counts encoded bytes. Errors: as Recv
// except ErrTruncate; ErrType if the message is not an object; those of the codec, which may leave *ptr half
// filled.
func RecvObject(c *Comm, ptr any, src, tag int) (Status, error) {
	m, st, err := c.mprobe("RecvObject", src, tag)
	if err != nil || m.null {
		return st, err
	}
	buf := make([]byte, st.Bytes)
	if st, err = m.mrecv(opRecvObject, objectType, nil, buf); err != nil {
		return st, err
	}
	if err := c.codec.Decode(bytes.NewReader(buf), ptr); err != nil {
		return st, c.failPeer("RecvObject", "source", src, tag, fmt.Errorf("decoding into %T: %w", ptr, err))
	}
	return st, nil
}

// IrecvObject begins RecvObject. *ptr belongs to the library until the request completes: it is filled before a Wait returns, by
// whichever goroutine is in a call then. Errors: as Irecv at the call; with the request those of RecvObject.
func IrecvObject(c *Comm, ptr any, src, tag int) (Request, error) {
	if err := c.checkRecv(src, tag); err != nil || src == ProcNull {
		return c.refused(opIrecvObject, src, tag, err)
	}
	o := &objectReceive{typ: *objectType}
	o.typ.Room = func(bytes int) []byte {
		o.buf = make([]byte, bytes)
		return o.buf
	}
	o.parts[0] = engine.Part{Peer: c.source(src), Recv: true, Tag: int32(tag), Type: &o.typ}
	o.rounds[0] = engine.Round{Parts: o.parts[:], Do: true}
	o.plan = engine.Plan{Ctx: c.ctx, Rounds: o.rounds[:], Foreign: true,
		What: what(func() string {
			return fmt.Sprintf("IrecvObject(source %s, tag %s) on %s", rankName(src), tagName(tag), c.path)
		}),
		Do: func(int) error { return o.decode(c.codec, ptr) }}
	r, err := c.env.eng.Begin(&o.plan)
	if err != nil {
		return c.refused(opIrecvObject, src, tag, err)
	}
	r.Note = note(opIrecvObject, objectType)
	return Request{r, c, int32(src), int32(tag)}, nil
}

// objectReceive is a receive whose message says how long it is.
type objectReceive struct {
	plan   engine.Plan
	rounds [1]engine.Round
	parts  [1]engine.Part
	typ    engine.Type // objects, with a Room of this receive
	buf    []byte      // the message, once it is known
}

// decode fills *ptr. The engine must not see a codec's panic.
func (o *objectReceive) decode(codec Codec, ptr any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoding into %T: the codec has panicked: %v", ptr, p)
		}
	}()
	if err := codec.Decode(bytes.NewReader(o.buf), ptr); err != nil {
		return fmt.Errorf("decoding into %T: %w", ptr, err)
	}
	return nil
}
