package image

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/cr/store"
)

// DefaultBlockSize is the block size where Options names none.
const DefaultBlockSize = 1 << 20

// runBlocks is how many blocks a worker takes at once. Neighbours that are stored as they are go out in one
// write.
const runBlocks = 4

// Options says how an image is written. The zero value is good.
type Options struct {
	Codec     Codec                // "": None
	Workers   int                  // goroutines that compress, sum and write; 0: GOMAXPROCS
	BlockSize int                  // bytes, a multiple of 4096 up to 16 MB; 0: DefaultBlockSize
	NoDirect  bool                 // write through the page cache even where O_DIRECT works
	NoFolder  bool                 // the caller makes the file's name durable (fsync of the folder)
	Slot      bool                 // the path is a slot of memory (store.Slot), written in place
	Passing   bool                 // it is read soon and then removed: it goes through the page cache and need not be durable
	Progress  func(written uint64) // called with the bytes of sections done so far, one call at a time
	Cancel    <-chan struct{}      // closed: give up; Commit and Section return ErrCanceled
	Also      []Part               // sections that are no matter of who writes the image; read before Commit returns
}

// Part is a section of an image, and where to read it.
type Part struct {
	Name, Kind, Type string
	Size             uint64
	From             io.ReaderAt // for several goroutines at once
}

// Summary describes the written image.
type Summary struct {
	Path     string
	Size     int64  // of the file, in bytes
	Raw      uint64 // bytes of the sections
	Zero     uint64 // of these, bytes in blocks left out because they were zero
	Sections int
	Digest   string // SHA-256 over header, meta and table, and so of all blocks, hex
	Codec    Codec
	Direct   bool          // written past the page cache
	CPU      time.Duration // processor time that reading, compressing, summing and writing took
}

// Writer writes one image. Section, SectionFrom and SectionFill may be called by several
// goroutines; Commit or Abort ends it and is called once, after them.
type Writer struct {
	path    string // or what it is called by in its store
	opt     Options
	out     *output
	head    []byte // header and meta, for the digest
	jobs    chan job
	workers sync.WaitGroup
	closed  bool

	mu       sync.Mutex // guards sections, names, progress
	sections []*section
	names    map[[2]string]bool
	done     uint64

	cpu    atomic.Int64          // ns that workers have used
	failed atomic.Pointer[Error] // first failure
	stop   chan struct{}         // closed with it
}

// job is a run of blocks of one section.
type job struct {
	s        *section
	first, n int
	data     []byte      // the run itself, or
	src      io.ReaderAt // where to read it, at its offset within the section, or
	fill     fillFunc    // what gives the whole section; room bytes of it at most
	room     int
}

// Create begins the image path. Until Commit the file is called path with a
// random part and PartSuffix added; its mode is 0600.
func Create(path string, m Meta, opt Options) (*Writer, error) {
	return begin(path, m, opt, func() (store.Writer, error) {
		if opt.Slot {
			return store.OpenSlot(path)
		}
		return store.CreateFile(path, store.Options{NoDirect: opt.NoDirect, Passing: opt.Passing}, !opt.NoFolder)
	})
}

// NewWriter begins an image that is written to out, a piece of a store; name is for errors. Commit ends the piece,
// and so does Abort. After an error here it was given up. NoDirect and NoFolder of the options mean nothing: that
// is said when the piece is created.
func NewWriter(out store.Writer, name string, m Meta, opt Options) (*Writer, error) {
	w, err := begin(name, m, opt, func() (store.Writer, error) { return out, nil })
	if err != nil {
		out.Abort() // begin may have done so
	}
	return w, err
}

// begin begins an image that is written to what open returns.
func begin(path string, m Meta, opt Options, open func() (store.Writer, error)) (*Writer, error) {
	w := &Writer{path: path, opt: opt, names: make(map[[2]string]bool), stop: make(chan struct{})}
	if err := w.setup(m, open); err != nil {
		return nil, w.wrap("", err)
	}
	for _, p := range opt.Also {
		if err := w.SectionFrom(p.Name, p.Kind, p.Type, p.Size, p.From); err != nil {
			w.Abort()
			return nil, err
		}
	}
	return w, nil
}

func (w *Writer) setup(m Meta, open func() (store.Writer, error)) error {
	codec, err := ParseCodec(string(w.opt.Codec))
	if err != nil {
		return err
	}
	w.opt.Codec = codec
	if w.opt.Workers <= 0 {
		w.opt.Workers = runtime.GOMAXPROCS(0)
	}
	if w.opt.BlockSize == 0 {
		w.opt.BlockSize = DefaultBlockSize
	}
	if b := w.opt.BlockSize; b < minBlock || b > maxBlock || b%pageSize != 0 {
		return fail(ErrTooLarge, "block size %d: a multiple of %d up to %d", b, pageSize, maxBlock)
	}
	meta, err := m.encode()
	if err != nil {
		return err
	}
	h := header{version: Version, bigEndian: m.BigEndian, metaLen: uint32(len(meta)), metaSum: checksum(meta)}
	w.head = append(h.encode(), meta...)
	piece, err := open()
	if err != nil {
		return err
	}
	w.out = newOutput(piece)
	w.out.end = int64(len(w.head))
	if err := w.out.write(w.head, 0, alignedBuffer(len(w.head)+pageSize)); err != nil {
		w.remove()
		return err
	}
	return w.start()
}

func (w *Writer) start() error {
	w.jobs = make(chan job, 2*w.opt.Workers)
	for range w.opt.Workers {
		e, err := newEncoder(w.opt.Codec)
		if err != nil {
			close(w.jobs)
			w.workers.Wait()
			w.remove()
			return err
		}
		w.workers.Add(1)
		go w.work(e)
	}
	return nil
}

// Section adds a section with the bytes p, which must not change until Commit or Abort has returned. Kind and
// name together must be new. Other goroutines write the bytes, so a later call reports a failure.
func (w *Writer) Section(name, kind, typ string, p []byte) error {
	return w.add(name, kind, typ, uint64(len(p)), func(off uint64, n int) job {
		return job{data: p[off : off+uint64(n)]}
	})
}

// SectionFrom adds a section of size bytes. Several goroutines read them from r before Commit returns.
func (w *Writer) SectionFrom(name, kind, typ string, size uint64, r io.ReaderAt) error {
	return w.add(name, kind, typ, size, func(uint64, int) job { return job{src: r} })
}

func (w *Writer) add(name, kind, typ string, size uint64, cut func(off uint64, n int) job) error {
	if len(name) > maxName || len(kind) > maxKind || len(typ) > maxType || size > maxSize {
		return w.wrap(name, fail(ErrTooLarge, "name, kind, type or size"))
	}
	s, err := w.enter(name, kind, typ, size)
	if err != nil {
		return err
	}
	for first := 0; first < len(s.blocks); first += runBlocks {
		off := uint64(first) * uint64(s.blockSize)
		j := cut(off, int(min(size-off, runBlocks*uint64(s.blockSize))))
		j.s, j.first, j.n = s, first, min(runBlocks, len(s.blocks)-first)
		if err := w.queue(j); err != nil {
			return err
		}
	}
	return nil
}

// enter puts a section into the table.
func (w *Writer) enter(name, kind, typ string, size uint64) (*section, error) {
	s := &section{name: name, kind: kind, typ: typ, size: size, blockSize: uint32(w.opt.BlockSize)}
	s.blocks = make([]block, blockCount(size, s.blockSize))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names[[2]string{kind, name}] {
		return nil, w.wrap(name, fail(ErrCorrupt, "two sections of this name and of kind %q", kind))
	}
	w.names[[2]string{kind, name}] = true
	w.sections = append(w.sections, s)
	return s, nil
}

// queue hands a job to the workers.
func (w *Writer) queue(j job) error {
	select {
	case w.jobs <- j:
		return nil
	case <-w.stop:
		return w.failed.Load()
	case <-w.opt.Cancel:
		return w.giveUp(j.s.name, ErrCanceled)
	}
}

// Commit waits for the workers, writes the table, waits until all of it is on the disk, and gives the file its
// name. If it fails, the partial file is removed.
func (w *Writer) Commit() (Summary, error) {
	if w.closed {
		return Summary{}, w.wrap("", ErrClosed)
	}
	w.join()
	if w.canceled() {
		w.giveUp("", ErrCanceled)
	}
	if e := w.failed.Load(); e != nil {
		w.remove()
		return Summary{}, e
	}
	sum, err := w.seal()
	if err != nil {
		w.remove()
		return Summary{}, w.wrap("", err)
	}
	return sum, nil
}

// Abort gives up and removes the partial file. After Commit it does nothing.
func (w *Writer) Abort() error {
	if w.closed {
		return nil
	}
	w.giveUp("", ErrCanceled)
	w.join()
	return w.remove()
}

func (w *Writer) join() {
	w.closed = true
	close(w.jobs)
	w.workers.Wait()
}

func (w *Writer) seal() (Summary, error) {
	o := w.out
	o.mu.Lock()
	err := o.flushPack()
	o.mu.Unlock()
	if err != nil {
		return Summary{}, err
	}
	w.sections = slices.DeleteFunc(w.sections, func(s *section) bool { return s.absent })
	table := encodeTable(w.sections)
	if len(table) > maxTable {
		return Summary{}, fail(ErrTooLarge, "table of %d bytes", len(table))
	}
	off := alignUp(o.end)
	t := trailer{tableOff: uint64(off), tableLen: uint64(len(table)), digest: digest(w.head, table)}
	size := off + int64(len(table)) + trailSize
	t.fileSize = uint64(size)
	tail := append(table, t.encode()...)
	if err := o.write(tail, off, alignedBuffer(len(tail)+pageSize)); err != nil {
		return Summary{}, err
	}
	sum := w.summary(size, t)
	return sum, o.w.Commit(size)
}

func (w *Writer) summary(size int64, t trailer) Summary {
	sum := Summary{
		Path: w.path, Size: size, Sections: len(w.sections), Codec: w.opt.Codec,
		Digest: hex.EncodeToString(t.digest[:]), Direct: w.out.isDirect(), CPU: time.Duration(w.cpu.Load()),
	}
	for _, s := range w.sections {
		sum.Raw += s.size
		sum.Zero += s.describe().Zero
	}
	return sum
}

func digest(head, table []byte) [32]byte {
	h := sha256.New()
	h.Write(head)
	h.Write(table)
	return [32]byte(h.Sum(nil))
}

// remove drops the partial file.
func (w *Writer) remove() error {
	if err := w.out.w.Abort(); err != nil {
		return w.wrap("", err)
	}
	return nil
}

func (w *Writer) canceled() bool {
	select {
	case <-w.opt.Cancel:
		return true
	default:
		return false
	}
}

// giveUp records the first failure and stops the workers.
func (w *Writer) giveUp(name string, err error) error {
	if w.failed.CompareAndSwap(nil, w.wrap(name, err)) {
		close(w.stop)
	}
	return w.failed.Load()
}

func (w *Writer) wrap(name string, err error) *Error {
	return &Error{Op: "write", Path: w.path, Section: name, Err: err}
}
