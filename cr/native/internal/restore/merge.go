package restore

import (
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// Merge writes an image that holds what the first of some holds, each of which builds on the next. If the last builds on
// another, which need not be there, then the new one does, too; base is its number, in case that has changed. seq is the number of the new image's snapshot.
//
//	newest   d d b b z        merged  d d d b z
//	         b b d b b
//	base     d d d d d
func Merge(to image.Target, seq, base int, from []image.Source, opt image.Options) (image.Summary, error) {
	c, err := openEach(from)
	defer c.Close()
	if err != nil {
		return image.Summary{}, err
	}
	if (base > 0) != (c.down() > 0) {
		return image.Summary{}, fmt.Errorf("%w: the last image builds on snapshot %d, the merged one would on %d", state.ErrImage, c.down(), base)
	}
	m := c[0].img.Meta()
	m.Seq = seq
	opt.BlockSize = max(opt.BlockSize, image.DefaultBlockSize) // a window is four of them
	w, err := to.Create(m, opt)
	if err != nil {
		return image.Summary{}, err
	}
	if err := c.merge(w, base); err != nil {
		w.Abort()
		return image.Summary{}, err
	}
	return w.Commit()
}

// openEach opens images, each of which has to build on the next.
func openEach(from []image.Source) (c chain, err error) {
	for _, src := range from {
		img, err := src.Open()
		if err != nil {
			return c, err
		}
		l := &layer{img: img}
		c = append(c, l)
		if err := c.admit(l, c[0].img.Meta().Rank); err != nil {
			return c, &image.Error{Op: "read", Path: src.String(), Err: err}
		}
	}
	if len(c) == 0 {
		return nil, fmt.Errorf("%w: no image to merge", state.ErrImage)
	}
	return c, nil
}

// down is the snapshot that the last image builds on, 0: none.
func (c chain) down() int { return c[len(c)-1].state.Base }

// merge adds all sections of the first image, with the pages of all.
func (c chain) merge(w *image.Writer, base int) error {
	for _, s := range c[0].img.Sections() {
		var err error
		switch own := !strings.Contains(s.Name, "/"); { // else of a process that descends from the first: it builds on nothing
		case own && s.Kind == state.KindPages:
			err = c.mergeWindow(w, s.Name)
		case own && s.Kind == state.KindProcess && s.Name == state.SectionName:
			top := *c[0].state
			top.Base = base
			var text []byte
			if text, err = top.Encode(); err == nil {
				err = w.Section(s.Name, s.Kind, s.Type, text)
			}
		default:
			err = w.SectionFrom(s.Name, s.Kind, s.Type, s.Size, sectionReader{c[0].img, s})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sectionReader reads a section as a file.
type sectionReader struct {
	img *image.Reader
	s   image.Section
}

func (r sectionReader) ReadAt(p []byte, off int64) (int, error) {
	if err := r.img.ReadRange(r.s.Kind, r.s.Name, uint64(off), p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// mergeWindow adds a window.
func (c chain) mergeWindow(w *image.Writer, name string) error {
	window, err := pages.ParseWindow(name)
	if err != nil {
		return err
	}
	pieces, err := c.pieces(window)
	if err != nil {
		return err
	}
	return w.SectionFill(name, state.KindPages, pages.Window, func(p []byte) (n int, typ string, err error) {
		var out pages.List
		data := make([][]byte, len(c)) // of the window in each layer
		for _, piece := range pieces {
			kind := byte(pages.Data)
			switch piece.layer {
			case -1:
				kind = pages.Zero
			case len(c):
				kind = pages.Base
			default:
				if data[piece.layer] == nil {
					if data[piece.layer], err = c[piece.layer].window(name, window); err != nil {
						return 0, "", err
					}
				}
				n += copy(p[n:], data[piece.layer][piece.data*pages.Size:][:piece.n*pages.Size])
			}
			out.Add(kind, int((piece.addr-window)/pages.Size), piece.n)
		}
		return n, out.String(), nil
	})
}

// window reads the data of a window.
func (l *layer) window(name string, window uint64) ([]byte, error) {
	p := make([]byte, l.data[window]*pages.Size)
	return p, l.img.ReadSection(state.KindPages, l.prefix+name, p)
}
