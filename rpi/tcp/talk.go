package tcp

import (
	"io"

	"golang.org/x/sys/unix"
)

// talk is a descriptor in a handshake. A few bytes go each way. It never reads beyond what the protocol says
// comes next, so the frames after the handshake stay in the socket.
type talk struct {
	fd   int
	out  []byte // still to be written
	in   [helloSize + answerSize]byte
	have int
}

// flush writes pending output and reports whether all of it has left.
func (t *talk) flush() (bool, error) {
	for len(t.out) > 0 {
		n, e := send(t.fd, t.out)
		if e == unix.EAGAIN {
			return false, nil
		}
		if e != 0 {
			return false, e
		}
		t.out = t.out[n:]
	}
	return true, nil
}

// take returns the next n bytes, or nil if they have not all arrived. They are
// valid until the next call.
func (t *talk) take(n int) ([]byte, error) {
	for t.have < n {
		k, e := recv(t.fd, t.in[t.have:n])
		if e == unix.EAGAIN {
			return nil, nil
		}
		if e != 0 {
			return nil, e
		}
		if k == 0 {
			return nil, io.EOF
		}
		t.have += k
	}
	t.have = 0
	return t.in[:n], nil
}
