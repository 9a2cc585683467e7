package mpi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
)

// Key names an attribute: a value of a type of its own that a library keeps with a communicator. It is made once,
// as a variable of a package, and used on any communicator. Attributes are this rank's memory: a native image has
// them, and a program that begins anew from a portable image sets them again. (MPI-4.1, chapter 7.7)
type Key[T any] struct{ k *key }

// key is a Key's identity.
type key struct {
	dup  func(c *Comm, v any) (any, bool)
	free func(c *Comm, v any)
}

// attribute is a value kept with a communicator.
type attribute struct {
	k *key
	v any
}

// NewKey makes a key. When a communicator is duplicated, dup says what value the duplicate gets, if any; c is the
// old one. When a communicator is freed, or another value takes a value's place, free is called with it; Finalize does
// that for Self and World. Either may be nil: then duplicates get no value, and nothing is called. (MPI-4.1, chapter 7.7.2, MPI_Comm_create_keyval)
func NewKey[T any](dup func(c *Comm, v T) (T, bool), free func(c *Comm, v T)) Key[T] {
	k := new(key)
	if dup != nil {
		k.dup = func(c *Comm, v any) (any, bool) { return dup(c, valueAs[T](v)) }
	}
	if free != nil {
		k.free = func(c *Comm, v any) { free(c, valueAs[T](v)) }
	}
	return Key[T]{k}
}

// valueAs returns a value that Set was given. A nil of an interface is of no type.
func valueAs[T any](v any) T {
	t, _ := v.(T)
	return t
}

// Set keeps v with c, in place of the key's value there. Errors: ErrComm; ErrKey if k was not made by NewKey.
// (MPI-4.1, chapter 7.7.2, MPI_Comm_set_attr)
func (k Key[T]) Set(c *Comm, v T) error {
	err := c.ready()
	if err == nil && k.k == nil {
		err = ErrKey
	}
	if err != nil {
		return c.fail("Set", err)
	}
	c.replace(k.k, attribute{k.k, v})
	return nil
}

// Get returns the key's value with c, if there is one. (MPI-4.1, chapter 7.7.2, MPI_Comm_get_attr)
func (k Key[T]) Get(c *Comm) (v T, ok bool) {
	if k.k == nil || c.ready() != nil {
		return v, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.attrs {
		if a.k == k.k {
			return valueAs[T](a.v), true
		}
	}
	return v, false
}

// Delete removes the key's value from c, after a call of the key's free. Without a value it does nothing. Errors:
// as Set. (MPI-4.1, chapter 7.7.2, MPI_Comm_delete_attr)
func (k Key[T]) Delete(c *Comm) error {
	err := c.ready()
	if err == nil && k.k == nil {
		err = ErrKey
	}
	if err != nil {
		return c.fail("Delete", err)
	}
	c.replace(k.k)
	return nil
}

// replace removes the value of a key, keeps another one, if any, and frees the old one.
func (c *Comm) replace(k *key, by ...attribute) {
	c.mu.Lock()
	i := slices.IndexFunc(c.attrs, func(a attribute) bool { return a.k == k })
	var old any
	if i >= 0 {
		old = c.attrs[i].v
		c.attrs = slices.Delete(c.attrs, i, i+1)
	}
	c.attrs = append(c.attrs, by...)
	c.mu.Unlock()
	if i >= 0 && k.free != nil {
		k.free(c, old)
	}
}

// copyAttributes gives a duplicate its values.
func (c *Comm) copyAttributes(d *Comm) {
	c.mu.Lock()
	all := slices.Clone(c.attrs)
	c.mu.Unlock()
	for _, a := range all {
		if a.k.dup == nil {
			continue
		}
		if v, ok := a.k.dup(c, a.v); ok {
			d.attrs = append(d.attrs, attribute{a.k, v})
		}
	}
}

// freeAttributes removes all values, the newest first.
func (c *Comm) freeAttributes() {
	for {
		c.mu.Lock()
		n := len(c.attrs)
		var last *key
		if n > 0 {
			last = c.attrs[n-1].k
		}
		c.mu.Unlock()
		if last == nil {
			return
		}
		c.replace(last)
	}
}

// SetName gives c a name for people, on the calling rank. Name returns it. Errors: ErrComm. (MPI-4.1, chapter 7.8)
func (c *Comm) SetName(name string) error {
	if err := c.ready(); err != nil {
		return c.fail("SetName", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.name = name
	return nil
}

// Name returns the name that SetName has given, else what String returns. (MPI-4.1, chapter 7.8)
func (c *Comm) Name() string {
	if c.none() {
		return c.String()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.name != "" {
		return c.name
	}
	return c.path
}

// Info are hints to the library. Those that it knows are "coll.NAME": the algorithms of a collective, as in the
// parameter of that name (gorun help run). Others are ignored. (MPI-4.1, chapter 10)
type Info map[string]string

// Hints returns the hints that act on c. The map is the caller's. (MPI-4.1, chapter 7.4.4, MPI_Comm_get_info)
func (c *Comm) Hints() Info {
	if c.none() {
		return nil
	}
	return maps.Clone(c.info)
}

// DupWithInfo is Dup with other hints than c's. All ranks of c call it, and give the same hints. Unlike Dup it waits
// for them. Errors: ErrInfo if a hint makes no sense; as Allgather. (MPI-4.1, chapter
// 7.4.2, MPI_Comm_dup_with_info)
func (c *Comm) DupWithInfo(info Info) (d *Comm, err error) {
	defer func() { err = called("DupWithInfo", err) }()
	if err := c.joins(); err != nil {
		return nil, c.fail("DupWithInfo", err)
	}
	acts := Info{}
	for k, v := range info {
		if strings.HasPrefix(k, coll.Prefix) {
			acts[k] = v
		}
	}
	table, wrong := c.env.chooser.table.With(acts)
	if wrong != nil {
		wrong = fmt.Errorf("%w: %w", ErrInfo, wrong)
	}
	if c.inter != nil {
		return c.dupInterWithInfo(acts, table, wrong)
	}
	d, err = c.split(kindCreate, choice{Key: int64(c.rank), Agreed: agreed("info", map[string]string(acts))}, wrong)
	if err != nil {
		return nil, err
	}
	if len(acts) > 0 {
		d.table, d.info = table, acts
	}
	c.copyAttributes(d)
	return d, nil
}
