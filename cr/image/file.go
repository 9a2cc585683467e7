package image

import (
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
)

// packBelow is the stored size under which blocks are gathered in one page-
// aligned write instead of beginning at a page of their own.
const packBelow = 32 << 10

// packSize is how much is gathered.
const packSize = 256 << 10

// output is what a Writer writes to: it places blocks and writes them.
//
// Where what is written is a file, and the file system allows it, output writes past the page cache (O_DIRECT).
// On the disks measured that is as fast as the disk. There it writes one block at a time, because a growing file
// takes only one direct write at a time anyway.
//
// Some file systems refuse O_DIRECT, such as tmpfs of older kernels and network file systems. There output
// writes through the cache, and tells the kernel after each block to begin writing it back. Summary.Direct
// tells which it was.
type output struct {
	w      store.Writer
	direct directWriter // w; nil if it is none
	used   bool         // what is not written has what was there before
	f      *os.File     // behind w; nil if there is none

	mu     sync.Mutex // guards placing; held while a pack is written
	end    int64      // next free offset
	pack   []byte
	packed []*packedBlock

	wr sync.Mutex // held while a direct write runs
}

// packedBlock is a small block whose place is known when its pack is written.
type packedBlock struct {
	b  *block
	at int
}

// directWriter is a store.Writer that may want whole pages, as store.PartFile.
type directWriter interface {
	Direct() bool
	LeaveDirect() error
}

func newOutput(w store.Writer) *output {
	o := &output{w: w}
	o.direct, _ = w.(directWriter)
	_, o.used = w.(interface{ Used() })
	if f, ok := w.(store.Filer); ok {
		o.f = f.File()
	}
	return o
}

// isDirect reports whether writes go past the page cache now.
func (o *output) isDirect() bool { return o.direct != nil && o.direct.Direct() }

// put stores p as block b and sets b.off. bounce is a page-aligned buffer of the caller with room for p and a
// page. It is used where p cannot be written directly.
func (o *output) put(b *block, p, bounce []byte) error {
	if len(p) < packBelow {
		return o.putSmall(b, p)
	}
	o.mu.Lock()
	off := o.reserve(len(p))
	o.mu.Unlock()
	b.off = uint64(off)
	return o.write(p, off, bounce)
}

// reserve gives n bytes at a page boundary. The caller holds o.mu.
func (o *output) reserve(n int) int64 {
	off := alignUp(o.end)
	o.end = off + int64(n)
	return off
}

func (o *output) putSmall(b *block, p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pack == nil {
		o.pack = alignedBuffer(packSize + pageSize)[:0]
	}
	if len(o.pack)+len(p) > packSize {
		if err := o.flushPack(); err != nil {
			return err
		}
	}
	o.packed = append(o.packed, &packedBlock{b, len(o.pack)})
	o.pack = append(o.pack, p...)
	return nil
}

// flushPack places and writes what was gathered. The caller holds o.mu.
func (o *output) flushPack() error {
	if len(o.pack) == 0 {
		return nil
	}
	off := o.reserve(len(o.pack))
	for _, pb := range o.packed {
		pb.b.off = uint64(off) + uint64(pb.at)
	}
	err := o.write(o.pack, off, o.pack)
	o.pack, o.packed = o.pack[:0], o.packed[:0]
	return err
}

// write writes p at off, a multiple of a page. It fills the last page with zeros, unless that is left to the page
// cache. So what goes elsewhere than to a file has no gaps, and a store knows when a part of it is whole.
func (o *output) write(p []byte, off int64, bounce []byte) error {
	direct := o.isDirect()
	if !direct && o.f != nil {
		return o.writeCached(p, off)
	}
	n := int(alignUp(int64(len(p))))
	if n != len(p) || direct && uintptr(unsafe.Pointer(unsafe.SliceData(p)))%pageSize != 0 {
		bounce = bounce[:n]
		if &bounce[0] != &p[0] {
			copy(bounce, p)
		}
		clear(bounce[len(p):])
		p = bounce
	}
	if !direct {
		_, err := o.w.WriteAt(p, off)
		return err
	}
	o.wr.Lock()
	_, err := o.w.WriteAt(p, off)
	o.wr.Unlock()
	if pe, ok := err.(*os.PathError); ok && pe.Err == unix.EINVAL {
		// The open took the flag, and the write is refused: use the cache from here on.
		if err := o.direct.LeaveDirect(); err != nil {
			return err
		}
		return o.writeCached(p, off)
	}
	return err
}

func (o *output) writeCached(p []byte, off int64) error {
	if _, err := o.w.WriteAt(p, off); err != nil {
		return err
	}
	if o.used {
		end := off + int64(len(p))
		_, err := o.w.WriteAt(zeroPage[:alignUp(end)-end], end)
		return err
	}
	// This is only a hint to begin early. Commit makes the data durable, and reports errors.
	_ = unix.SyncFileRange(int(o.f.Fd()), off, int64(len(p)), unix.SYNC_FILE_RANGE_WRITE)
	return nil
}

var zeroPage [pageSize]byte

// alignedBuffer returns n bytes that begin at a page boundary.
func alignedBuffer(n int) []byte {
	p := make([]byte, n+pageSize)
	shift := int(-uintptr(unsafe.Pointer(&p[0])) & (pageSize - 1))
	return p[shift : shift+n : shift+n]
}
