package self

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Resizable returns why the images of a snapshot, by rank, cannot be restored by another number of ranks, nil if they
// can. ErrResize names each variable that is in the way with its ranks and the remedy, or a message that was under way.
// Errors of damaged images are those of Open. It reads the tables of the images, not the variables.
func Resizable(images []image.Source) error {
	all, errs := make([]*Restore, len(images)), make([]error, len(images))
	turn := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for rank, from := range images {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			if all[rank], errs[rank] = Open(from); errs[rank] == nil {
				errs[rank] = all[rank].Close() // the table stays
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c := &comparison{first: map[string]*seen{}, images: len(images)}
	for rank, r := range all {
		meta := r.Meta()
		if err := under(r.msgs, &meta); err != nil {
			return err
		}
		c.add(rank, r)
	}
	return c.verdict()
}

// atOnce is how many images are opened at once: they may lie far away.
const atOnce = 32

// under returns an error that names the first of some messages under way.
func under(msgs []engine.Saved, m *image.Meta) error {
	if len(msgs) == 0 {
		return nil
	}
	one := msgs[0]
	on := m.Contexts[fmt.Sprintf("%016x", one.Ctx&^1)]
	if on == "" {
		on = fmt.Sprintf("context %016x", one.Ctx)
	}
	return fmt.Errorf("%w: %d messages were under way to rank %d when its image was taken, one of %d bytes from rank %d with tag %d on %s: call cr.Point where all messages are received",
		ErrResize, len(msgs), m.Rank, len(one.Data), one.Source, one.Tag, on)
}

// comparison is what the images of a snapshot have in common.
type comparison struct {
	images int
	order  []string // of the variables
	first  map[string]*seen
}

// seen is a variable as the images up to now have it.
type seen struct {
	typ    string
	last   *window // Distributed: of the newest image
	digest []byte  // Replicated: of the first one
	ranks  int     // that have it
	file   bool    // it is the place of a file
	wrong  string  // what is wrong with it
	on     []int   // ranks
}

func (v *seen) blame(rank int, format string, args ...any) {
	if v.wrong == "" {
		v.wrong = fmt.Sprintf(format, args...)
	}
	v.on = append(v.on, rank)
}

// add takes the image of the next rank.
func (c *comparison) add(rank int, r *Restore) {
	for _, name := range r.names {
		sec, rows := r.r.Lookup(KindArray, name)
		if !rows {
			sec, _ = r.r.Lookup(KindValue, name)
		}
		w, d, v := r.windows[name], r.digests[name], c.first[name]
		if v == nil {
			v = &seen{typ: sec.Type, last: w, digest: d}
			c.first[name], c.order = v, append(c.order, name)
			if rank == 0 && w != nil && (w.first != 0 || w.columns().First != 0) {
				v.blame(rank, "%s do not begin with row 0", w)
			}
		} else {
			v.compare(rank, sec.Type, w, d)
		}
		v.ranks++
		if w == nil && d == nil {
			v.blame(rank, "%s", remedy(sec))
		}
		v.file = v.file || ofFile(sec)
	}
}

// compare compares the variable of a further rank with those before.
func (v *seen) compare(rank int, typ string, w *window, digest []byte) {
	switch {
	case typ != v.typ:
		v.blame(rank, "it has type %s there, and %s before", typ, v.typ)
	case (w == nil) != (v.last == nil), (digest == nil) != (v.digest == nil):
		v.blame(rank, "it is not registered alike on all ranks")
	case w != nil && !(w.fits(v.last) && w.follows(v.last)):
		v.blame(rank, "%s do not go on where those of the rank before end, at row %d of %d: make the dist.Array or dist.Grid of a communicator of all ranks in their order", w, v.last.end(), v.last.rows)
	case !bytes.Equal(digest, v.digest):
		v.blame(rank, "it is registered as dist.Replicated, and its value is not that of rank 0")
	}
	v.last = w
}

// verdict joins the errors.
func (c *comparison) verdict() error {
	var all []string
	for _, name := range c.order {
		v := c.first[name]
		if v.wrong == "" && v.last != nil && (v.last.end() != v.last.rows || v.last.columns().end() != v.last.columns().All) {
			v.blame(c.images-1, "%s are not the last ones", v.last)
		}
		if v.ranks < c.images && !v.file {
			all = append(all, fmt.Sprintf("variable %q is registered by %d of %d ranks only, and it is not known whose it would be: register it on all, or leave it out", name, v.ranks, c.images))
		} else if v.wrong != "" {
			all = append(all, fmt.Sprintf("variable %q on %s: %s", name, ranks(v.on, c.images), v.wrong))
		}
	}
	if len(all) == 0 {
		return nil
	}
	if n := len(all) - mostNamed; n > 0 {
		all = append(slices.Clip(all[:mostNamed]), fmt.Sprintf("and %d more", n))
	}
	return fmt.Errorf("%w: %s", ErrResize, strings.Join(all, "; "))
}

// mostNamed bounds how many variables, or ranks, one error names.
const mostNamed = 8

// ranks names some of n ranks.
func ranks(some []int, n int) string {
	if len(some) == n && n > 1 {
		return "all ranks"
	}
	text, rest := "rank", ""
	if len(some) > 1 {
		text = "ranks"
	}
	if k := len(some) - mostNamed; k > 0 {
		some, rest = some[:mostNamed], fmt.Sprintf(" and %d more", k)
	}
	return text + " " + strings.Trim(strings.ReplaceAll(fmt.Sprint(some), " ", ", "), "[]") + rest
}
