package mpi

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"

	"github.com/gorun-mpi/gorun/internal/engine"
)

// Codec turns any Go value into bytes and back. Decode gets a pointer. Both
// may be called by several goroutines at once.
type Codec interface {
	Encode(w io.Writer, v any) error
	Decode(r io.Reader, ptr any) error
}

// Gob is the default codec, encoding/gob: exported fields, maps, slices,
// pointers; interfaces need gob.Register. Each message describes its types
// anew.
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
	if err := c.checkSend(dst, tag); err != nil {
		return c.failPeer("SendObject", "destination", dst, tag, err)
	}
	var b bytes.Buffer
	if err := c.codec.Encode(&b, v); err != nil {
		return c.failPeer("SendObject", "destination", dst, tag, fmt.Errorf("encoding a %T: %w", v, err))
	}
	return c.send("SendObject", objectType, nil, b.Bytes(), dst, tag, engine.Standard)
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
