package tcp

import (
	"fmt"
	"syscall"

	"github.com/gorun-mpi/gorun/rpi"
)

const (
	// inFirst and inMax bound a connection's input buffer, which grows when
	// batches of small frames fill it.
	inFirst = 4 << 10
	inMax   = 32 << 10
	// ahead is how far a read that completes a large payload goes on. That is enough for the next header and a
	// few small frames. It is little enough that data for other destinations is seldom copied twice.
	ahead = 2 << 10
	// straight is the smallest rest of a payload that is read directly to its destination, without the buffer.
	straight = 1 << 10
)

// input takes a stream apart into frames.
type input struct {
	buf  []byte
	r, w int // buf[r:w] has been read from the socket and not been looked at

	frame bool       // a frame was begun and not ended
	hdr   rpi.Header // of the present frame
	dst   []byte     // where the next payload bytes go
	left  int        // payload bytes to come; those beyond dst are dropped
	big   bool       // the last frame was large: expect another, do not read far ahead
}

// read reads once. It returns how much it read, and whether there may be more.
func (in *input) read(fd int, v *vector) (n int, more bool, e syscall.Errno) {
	if in.buf == nil {
		in.buf = make([]byte, inFirst)
	}
	if len(in.dst) < straight {
		space := in.buf[in.w:]
		if limit := in.left + ahead; in.big && len(space) > limit {
			space = space[:limit]
		}
		if n, e = recv(fd, space); e != 0 || n <= 0 {
			return 0, false, e
		}
		in.w += n
		return n, n == len(space), 0
	}
	// A large payload and what follows it. The buffer is empty now, because all that was read before belonged
	// to this payload.
	space := in.buf[in.w:]
	if len(space) > ahead {
		space = space[:ahead]
	}
	v.reset()
	v.add(in.dst)
	v.add(space)
	want := len(in.dst) + len(space)
	if n, e = v.recv(fd); e != 0 || n <= 0 {
		return 0, false, e
	}
	k := min(n, len(in.dst))
	in.dst, in.left = in.dst[k:], in.left-k
	in.w += n - k
	return n, n == want, 0
}

// parse passes on every frame and part of a payload in the buffer. An error means that the stream is corrupt,
// or that the sink says so.
func (in *input) parse(peer int, sink rpi.Sink) error {
	for {
		if in.frame {
			k := min(in.left, in.w-in.r)
			if k > 0 {
				d := copy(in.dst, in.buf[in.r:in.r+k])
				in.dst = in.dst[d:]
				in.r, in.left = in.r+k, in.left-k
			}
			if in.left > 0 {
				in.compact()
				return nil
			}
			in.frame, in.dst = false, nil
			sink.End(peer)
			continue
		}
		if in.w-in.r < rpi.HeaderSize {
			in.compact()
			return nil
		}
		if err := in.begin(peer, sink); err != nil {
			return err
		}
	}
}

func (in *input) begin(peer int, sink rpi.Sink) error {
	if !in.hdr.Decode(in.buf[in.r:]) {
		return fmt.Errorf("%w: a header of kind %d with length %d", ErrCorrupt, in.hdr.Kind, in.hdr.Len)
	}
	in.r += rpi.HeaderSize
	in.left = in.hdr.PayloadLen()
	in.big = in.left > smallMax
	dst, err := sink.Begin(peer, &in.hdr)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	in.dst = dst[:min(len(dst), in.left)]
	in.frame = true
	return nil
}

// compact moves the beginning of a header to the front. It lets the buffer grow if the last read filled it.
func (in *input) compact() {
	to := in.buf
	if in.w == len(in.buf) && !in.big && len(in.buf) < inMax {
		to = make([]byte, 2*len(in.buf))
	}
	in.w = copy(to, in.buf[in.r:in.w])
	in.r, in.buf = 0, to
}
