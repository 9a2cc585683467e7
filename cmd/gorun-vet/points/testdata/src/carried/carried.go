// Package carried registers variables on a way: in loops, by functions.
package carried

import (
	"errors"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/mpi"
)

type entry struct {
	name string
	p    any
}

var names = []string{"a", "b"}

func save[T any](name string, p *T) error { return cr.Register(name, p) }

func saveAll(all ...any) error {
	for i, p := range all {
		if err := cr.Register(names[i], p); err != nil {
			return err
		}
	}
	return nil
}

func entries(a, b *float64) []entry { return []entry{{"a", a}, {"b", b}} }

type part struct{ now, next float64 }

// elements are registered one after the other, by their addresses, and by their fields.
func elements(c *mpi.Comm, n int) error { // want elements:"messages Point"
	step, parts, others, more := 0, make([]part, 4), make([]part, 4), make([]part, 4)
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for i := range parts {
		p, q := &parts[i], &more[i]
		if err := errors.Join(cr.Register("part", p), cr.Register("now", &q.now), cr.Register("next", &q.next), cr.Register("now", &others[i].now), cr.Register("next", &others[i].next)); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		parts[0].now += parts[1].next
		others[0].now += others[1].next
		more[0].now += more[1].next
	}
	return nil
}

// held are in a slice that nobody registers.
func held(c *mpi.Comm, n int) error { // want held:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for _, p := range []*float64{&a, &b} {
		*p = 2
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil { // want `a is live at this Point and not registered` `b is live at this Point and not registered`
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func slice(c *mpi.Comm, n int) error { // want slice:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for _, v := range []struct {
		name string
		p    any
	}{{"a", &a}, {"b", &b}} {
		if err := cr.Register(v.name, v.p); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func keyed(c *mpi.Comm, n int) error { // want keyed:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for _, v := range []entry{{name: "a", p: &a}, {name: "b", p: &b}} {
		if err := cr.Register(v.name, v.p); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func pointers(c *mpi.Comm, n int) error { // want pointers:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for _, v := range []*entry{{"a", &a}, {"b", &b}} {
		if err := cr.Register(v.name, v.p); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func array(c *mpi.Comm, n int) error { // want array:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for i, p := range [...]*float64{&a, &b} {
		if err := cr.Register(names[i], p); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func table(c *mpi.Comm, n int) error { // want table:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for name, p := range map[string]any{"a": &a, "b": &b} {
		if err := cr.Register(name, p); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func structs(c *mpi.Comm, n int) error { // want structs:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for name, e := range map[string]entry{"a": {"", &a}, "b": {"", &b}} {
		if err := cr.Register(name, e.p); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func keys(c *mpi.Comm, n int) error { // want keys:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for p := range map[*float64]bool{&a: true, &b: true} {
		if err := cr.Register("x", p); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func variable(c *mpi.Comm, n int) error { // want variable:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	all := []entry{{"a", &a}, {"b", &b}}
	for i := range all {
		if err := cr.Register(all[i].name, all[i].p); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func appended(c *mpi.Comm, n int) error { // want appended:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	var all []entry
	all = append(all, entry{"a", &a})
	all = append(all, entry{"b", &b})
	for _, e := range all {
		if err := cr.Register(e.name, e.p); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func assigned(c *mpi.Comm, n int) error { // want assigned:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	all := map[string]any{}
	all["a"], all["b"] = &a, &b
	for name, p := range all {
		if err := cr.Register(name, p); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func generic(c *mpi.Comm, n int) error { // want generic:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	if err := errors.Join(save("a", &a), save("b", &b)); err != nil {
		return err
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func several(c *mpi.Comm, n int) error { // want several:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	if err := saveAll(&a, &b); err != nil {
		return err
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func literal(c *mpi.Comm, n int) error { // want literal:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	put := func(name string, p any) error { return cr.Register(name, p) }
	if err := errors.Join(put("a", &a), put("b", &b)); err != nil {
		return err
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}

func returned(c *mpi.Comm, n int) error { // want returned:"messages Point"
	step, a, b := 0, 1.0, 1.0
	if err := cr.Register("step", &step); err != nil {
		return err
	}
	for _, e := range entries(&a, &b) {
		if err := cr.Register(e.name, e.p); err != nil {
			return err
		}
	}
	for ; step < n; step++ {
		if err := errors.Join(cr.Point(), mpi.Barrier(c)); err != nil {
			return err
		}
		a, b = a+b, a-b
	}
	return nil
}
