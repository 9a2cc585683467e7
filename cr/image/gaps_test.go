package image

import (
	"sync"
	"testing"
)

// counted counts what is written to each page of a piece that is no file.
type counted struct {
	mu    sync.Mutex
	pages map[int64]int
	size  int64
}

func (c *counted) WriteAt(p []byte, off int64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := range p {
		c.pages[(off+int64(at))/pageSize]++
	}
	return len(p), nil
}
func (c *counted) Commit(size int64) error { c.size = size; return nil }
func (c *counted) Abort() error            { return nil }

// TestNoGaps: what is written elsewhere than to a file is written whole, page by page, once.
func TestNoGaps(t *testing.T) {
	for _, codec := range []Codec{None, Snappy, Zstd} {
		c := &counted{pages: map[int64]int{}}
		w, err := NewWriter(c, "piece", LocalMeta(), Options{Codec: codec, BlockSize: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range []int{1, 5000, 300_000} {
			p := make([]byte, n)
			for j := range p {
				p[j] = byte(j * (i + 1) >> 3)
			}
			if err := w.Section(string(rune('a'+i)), "k", "", p); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		for page := range (c.size + pageSize - 1) / pageSize {
			if c.pages[page] != pageSize {
				t.Errorf("%s: page %d of %d bytes was written %d times a byte", codec, page, c.size, c.pages[page])
			}
		}
	}
}
