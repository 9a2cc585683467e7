package sealed

import (
	"errors"
	"fmt"
	"io"

	"github.com/gorun-mpi/gorun/cr/store"
)

// reader opens the blocks that are read.
type reader struct {
	store.Reader // of what is sealed
	box          *box
	size         int64
}

func newReader(r store.Reader, k *key, name string) (*reader, error) {
	all := r.Size()
	if all < headSize+endSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrSealed, all)
	}
	var head [headSize]byte
	if err := readFull(r, head[:], 0); err != nil {
		return nil, err
	}
	b, err := newBox(k, head, name)
	if err != nil {
		return nil, err
	}
	var end [endSize]byte
	if err := readFull(r, end[:], all-endSize); err != nil {
		return nil, err
	}
	size, err := b.openEnd(end[:], all)
	return &reader{r, b, size}, err
}

func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %d bytes are missing at %d", ErrSealed, len(p)-n, off+int64(n))
	}
	return err
}

// Size is that of what was sealed.
func (r *reader) Size() int64 { return r.size }

// ReadAt opens the blocks that hold p, a run at a time.
func (r *reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("offset %d", off)
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for n < len(p) {
		at := off + int64(n)
		if at >= r.size {
			return n, io.EOF
		}
		k, err := r.run((*buf)[:runBlocks*fullSize], p[n:], at)
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// run reads neighbouring blocks, as many as buf has room for and p needs.
func (r *reader) run(buf, p []byte, at int64) (n int, err error) {
	first := at / blockSize
	end := min(at+int64(len(p)), r.size)
	last := min((end-1)/blockSize, first+runBlocks-1)
	size := min((last+1)*blockSize, r.size) - first*blockSize
	buf = buf[:size+(last-first+1)*tagSize]
	if err := readFull(r.Reader, buf, headSize+first*fullSize); err != nil {
		return 0, err
	}
	for i := first; i <= last; i++ {
		sealed := buf[:min(fullSize, len(buf))]
		buf = buf[len(sealed):]
		plain := len(sealed) - tagSize
		skip := int(max(at-i*blockSize, 0))
		if dst := p[n:]; skip == 0 && len(dst) >= plain {
			err = r.box.open(dst[:plain:plain], i, sealed)
			n += plain
		} else {
			whole := sealed[:0] // opened in place
			err = r.box.open(whole, i, sealed)
			n += copy(dst, sealed[skip:plain])
		}
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}
