package capture

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// Memory that the program wants no child to have (MADV_DONTFORK), or to have empty (MADV_WIPEONFORK): the copy
// is to have it. It is given to children for the moment in which the copy is made.

// lookForApart notes such memory, before anything is stopped. Only programs with C in them are asked: it takes
// a walk through all their pages.
func (g *Target) lookForApart() error {
	g.apart = nil
	if g.runtimes.C == nil {
		return nil
	}
	maps, err := proc.Parsed(g.PID, "smaps", proc.ParseSmaps)
	for i := range maps {
		m := &maps[i]
		if m.Shared || m.Has(flagDroppable) || m.Has(flagDevice) || m.Has(flagRaw) || !m.Has(flagNoCopy) && !m.Has(flagWipe) {
			continue
		}
		g.apart = append(g.apart, state.Apart{Extent: pages.Extent{Start: m.Start, End: m.End}, Withheld: m.Has(flagNoCopy), Wiped: m.Has(flagWipe)})
	}
	return err
}

// shareApart gives it to children, as far as it is still there, and notes it in the image.
func (r *recorder) shareApart(in *trace.Injector) error {
	r.state.Apart = nil
	for _, a := range r.g.apart {
		if !r.mapped(a.Extent) {
			continue
		}
		r.state.Apart = append(r.state.Apart, a)
		if err := advise(in, a, unix.MADV_DOFORK, unix.MADV_KEEPONFORK); err != nil {
			return errors.Join(err, r.withholdApart(in))
		}
	}
	return nil
}

// withholdApart takes it back.
func (r *recorder) withholdApart(in *trace.Injector) error {
	var errs []error
	for _, a := range r.state.Apart {
		errs = append(errs, advise(in, a, unix.MADV_DONTFORK, unix.MADV_WIPEONFORK))
	}
	return errors.Join(errs...)
}

// mapped tells whether a mapping has just these addresses.
func (r *recorder) mapped(e pages.Extent) bool {
	for i := range r.maps {
		if r.maps[i].Start == e.Start && r.maps[i].End == e.End {
			return true
		}
	}
	return false
}

// advise gives the kernel one advice about withheld memory, and another about wiped memory.
func advise(in *trace.Injector, a state.Apart, withheld, wiped uint64) error {
	for _, c := range []struct {
		is     bool
		advice uint64
	}{{a.Withheld, withheld}, {a.Wiped, wiped}} {
		if !c.is {
			continue
		}
		if _, err := in.Call(unix.SYS_MADVISE, a.Start, a.End-a.Start, c.advice); err != nil {
			return fmt.Errorf("advice %d on memory at %#x: %w", c.advice, a.Start, err)
		}
	}
	return nil
}
