package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/gorun-mpi/gorun/cr/image"
)

// A capture is an image (package cr/image) of back-end "device": a section of kind "device", name "objects",
// which is the JSON of contents; and the bytes of each memory that is kept, in sections of kind "memory" of at most partBytes, named
// NUMBER/OFFSET. So neither side needs room for more than a few parts.
const (
	backend   = "device"
	format    = 1
	partBytes = 4 << 20
)

// contents says what was on a device.
type contents struct {
	Head     uint64         `json:"head"` // the last command that was done
	Kernels  []kernelOnDisk `json:"kernels"`
	Memories []memoryOnDisk `json:"memories"`
	Texts    []code         `json:"texts"`
}

// kernelOnDisk names a kernel. All things stand in the order in which they were made.
type kernelOnDisk struct {
	ID      uint64 `json:"id"`
	Name    string `json:"name"`
	Text    int    `json:"text"` // in Texts
	Created uint64 `json:"created"`
}

// memoryOnDisk describes a memory. One that is not kept is full of zeros when it is restored.
type memoryOnDisk struct {
	ID      uint64 `json:"id"`
	Size    uint64 `json:"size"`
	Kept    bool   `json:"kept"`
	Created uint64 `json:"created"`
}

// bytes is how much of a device's memory that takes.
func (c *contents) bytes() (n int64) {
	for _, m := range c.Memories {
		n += int64(m.Size)
	}
	return n
}

// describe lists what is on the device. The worker stands still.
func (o *objects) describe(head uint64, skip []uint64) contents {
	c := contents{Head: head, Kernels: []kernelOnDisk{}, Memories: []memoryOnDisk{}, Texts: []code{}}
	for _, id := range inOrder(o.kernels, func(k *kernel) uint64 { return k.created }) {
		k := o.kernels[id]
		text := slices.Index(c.Texts, k.code)
		if text < 0 {
			text = len(c.Texts)
			c.Texts = append(c.Texts, k.code)
		}
		c.Kernels = append(c.Kernels, kernelOnDisk{id, k.name, text, k.created})
	}
	for _, id := range inOrder(o.memories, func(m *memory) uint64 { return m.created }) {
		m := o.memories[id]
		c.Memories = append(c.Memories, memoryOnDisk{id, m.size, !slices.Contains(skip, id), m.created})
	}
	return c
}

// onDevice reads a part of a memory, by the worker's thread.
type onDevice struct {
	w  *worker
	m  *memory
	at int64
}

func (d onDevice) ReadAt(p []byte, off int64) (int, error) {
	q := d.w.objects.queue
	err := d.w.do(func() error {
		if err := q.Read(p, d.m.mem, d.at+off); err != nil {
			return err
		}
		return q.Finish()
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// capture writes what is on the device to path, while the worker takes no commands. The file appears when it is
// whole. cancel gives up.
func capture(w *worker, path string, head uint64, opt captureOptions, cancel <-chan struct{}) (bytes int64, err error) {
	if ticket, why := w.ring.Failed(); ticket != 0 {
		return 0, fmt.Errorf("the device has failed: %s", why)
	}
	c := w.objects.describe(head, opt.skip)
	text, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	meta := image.LocalMeta()
	meta.Backend, meta.Format = backend, format
	out, err := image.Create(path, meta, image.Options{Cancel: cancel, Workers: 2, Passing: opt.passing, NoFolder: opt.passing})
	if err != nil {
		return 0, err
	}
	if err := addSections(out, w, c, text); err != nil {
		return 0, errors.Join(err, out.Abort())
	}
	sum, err := out.Commit()
	return sum.Size, err
}

func addSections(out *image.Writer, w *worker, c contents, text []byte) error {
	if err := out.Section("objects", backend, "", text); err != nil {
		return err
	}
	for _, m := range c.Memories {
		if !m.Kept {
			continue
		}
		for at, n := range parts(m.Size) {
			if err := out.SectionFrom(partName(m.ID, at), "memory", "", n, onDevice{w, w.objects.memories[m.ID], int64(at)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// parts goes through the parts of a memory: offset and size.
func parts(size uint64) func(yield func(at, n uint64) bool) {
	return func(yield func(at, n uint64) bool) {
		for at := uint64(0); at < size; at += partBytes {
			if !yield(at, min(partBytes, size-at)) {
				return
			}
		}
	}
}

func partName(id, at uint64) string { return fmt.Sprintf("%d/%d", id, at) }

// restore makes what a capture holds. It returns the capture's head and the bytes that were read.
func restore(w *worker, path string) (head uint64, bytes int64, err error) {
	r, err := image.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer r.Close()
	c, err := readContents(r)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", path, err)
	}
	if err := w.reserve(c.bytes()); err != nil {
		return 0, 0, err
	}
	for _, k := range c.Kernels {
		if err := w.do(func() error { return w.objects.build(k.ID, k.Name, c.Texts[k.Text], k.Created) }); err != nil {
			return 0, 0, fmt.Errorf("kernel %s: %w", k.Name, err)
		}
	}
	buf := make([]byte, partBytes)
	for _, m := range c.Memories {
		if err := restoreMemory(w, r, m, buf); err != nil {
			return 0, 0, err
		}
	}
	return c.Head, r.Size(), nil
}

// readContents reads and checks the list of what there is.
func readContents(r *image.Reader) (c contents, err error) {
	if m := r.Meta(); m.Backend != backend || m.Format != format {
		return c, fmt.Errorf("an image of back-end %q, format %d; a capture of a device is %q, %d", m.Backend, m.Format, backend, format)
	}
	s, ok := r.Lookup(backend, "objects")
	if !ok || s.Size > 1<<30 {
		return c, errors.New("no list of objects in it")
	}
	text := make([]byte, s.Size)
	if err := r.ReadSection(backend, "objects", text); err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, err
	}
	for _, k := range c.Kernels {
		if k.Text < 0 || k.Text >= len(c.Texts) {
			return c, fmt.Errorf("kernel %s has no text", k.Name)
		}
	}
	return c, nil
}

// restoreMemory makes a memory and fills it, part after part.
func restoreMemory(w *worker, r *image.Reader, m memoryOnDisk, buf []byte) error {
	if err := w.do(func() error { return w.objects.alloc(m.ID, m.Size, m.Created) }); err != nil || !m.Kept {
		return err
	}
	mem, q := w.objects.memories[m.ID].mem, w.objects.queue
	for at, n := range parts(m.Size) {
		if err := r.ReadSection("memory", partName(m.ID, at), buf[:n]); err != nil {
			return err
		}
		if err := w.do(func() error { return errors.Join(q.Write(mem, int64(at), buf[:n]), q.Finish()) }); err != nil {
			return err
		}
	}
	return nil
}

// capturing is a capture under way.
type capturing struct {
	path   string
	cancel chan struct{}
	done   chan struct{} // closed when the goroutine is over; then:
	bytes  int64
	err    error
}

// captureOptions are those of an order.
type captureOptions struct {
	skip    []uint64
	passing bool
}

func beginCapture(w *worker, path string, head uint64, opt captureOptions, then func(*capturing)) *capturing {
	c := &capturing{path: path, cancel: make(chan struct{}), done: make(chan struct{})}
	go func() {
		c.bytes, c.err = capture(w, path, head, opt, c.cancel)
		close(c.done)
		then(c)
	}()
	return c
}

// discard gives up, or removes what was written.
func (c *capturing) discard() error {
	close(c.cancel)
	<-c.done
	if c.err != nil {
		return nil
	}
	return os.Remove(c.path)
}
