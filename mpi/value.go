package mpi

import (
	"fmt"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// SendValue sends a single value, as Send does a slice of one. It does not allocate: v is sent from pooled
// memory. Errors: as Send. (MPI-4.1, chapter 3.2.1)
func SendValue[T any](c *Comm, v T, dst, tag int) error {
	t, err := elem[T]()
	size := int(unsafe.Sizeof(v))
	s := borrow(size)
	defer s.giveBack()
	if err == nil { // T has no pointers, so its bytes may be copied
		copy(s.bytes(size), unsafe.Slice((*byte)(unsafe.Pointer(&v)), size))
	}
	return c.send("SendValue", t, err, s.bytes(size), dst, tag, engine.Standard)
}

// RecvValue receives a single value. If the message has more than one element it returns ErrTruncate, if it is
// empty ErrCount. Other errors: as Recv. (MPI-4.1, chapter 3.2.4)
func RecvValue[T any](c *Comm, src, tag int) (T, Status, error) {
	var v T
	t, err := elem[T]()
	size := int(unsafe.Sizeof(v))
	s := borrow(size)
	defer s.giveBack()
	st, err := c.recv("RecvValue", t, err, s.bytes(size), src, tag)
	if err != nil || src == ProcNull {
		return v, st, err
	}
	if st.Count == 0 {
		return v, st, c.failPeer("RecvValue", "source", src, tag, fmt.Errorf("%w: the message is empty", ErrCount))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), size), s.bytes(size))
	return v, st, nil
}
