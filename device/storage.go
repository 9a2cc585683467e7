package device

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/gorun-mpi/gorun/device/provider"
)

// storage is the elements of an array and of all parts of it. Each row is valid in at least one place.
type storage struct {
	id   uint64 // the order in which several are locked
	mu   sync.Mutex
	host []byte
	row  int // bytes
	n    int // rows

	valid  rows // on the host
	copies *copies
}

// replica is a copy of some rows on a device.
type replica struct {
	s     weak.Pointer[storage]
	d     *driver
	all   span
	mem   provider.Memory
	valid rows
}

// copies are those of one storage on devices. They do not keep it, so that they are freed when it is garbage.
type copies struct{ list []*replica }

var lastStorage atomic.Uint64

func newStorage(host []byte, row int, all span) *storage {
	s := &storage{id: lastStorage.Add(1), host: host, row: row, n: all.to, copies: &copies{}}
	s.valid = s.valid.with(all)
	runtime.AddCleanup(s, func(c *copies) { c.free() }, s.copies)
	return s
}

func (c *copies) free() {
	for _, r := range c.list {
		r.d.free(r)
	}
	c.list = nil
}

// bytes are rows in the program's memory.
func (s *storage) bytes(rows span) []byte { return s.host[rows.from*s.row : rows.to*s.row] }

// on returns the copy of exactly these rows on a device; it is made if there is none.
func (s *storage) on(d *driver, all span) (*replica, error) {
	for _, r := range s.copies.list {
		if r.d == d && r.all == all {
			return r, nil
		}
	}
	mem, err := d.p.Alloc((all.to - all.from) * s.row)
	if err != nil {
		return nil, err
	}
	r := &replica{s: weak.Make(s), d: d, all: all, mem: mem}
	d.replicas[r] = true
	s.copies.list = append(s.copies.list, r)
	return r, nil
}

// written marks rows stale everywhere but in one copy, nil for the host. Caller holds mu.
func (s *storage) written(by *replica, all span) {
	for _, r := range s.copies.list {
		if r != by {
			r.valid = r.valid.without(all)
		}
	}
	if by != nil {
		s.valid = s.valid.without(all)
		by.valid = by.valid.with(all)
	}
}

// fetch makes rows valid on the host, and waits for that. Caller holds mu, and of no driver.
func (s *storage) fetch(all span) error {
	for _, stale := range s.valid.lacks(all) {
		if s.row == 0 {
			break
		}
		left := rows{stale}
		for _, r := range s.copies.list {
			for _, part := range r.valid.within(stale) {
				for _, want := range left.within(part) {
					if err := s.read(r, want); err != nil {
						return err
					}
				}
				left = left.without(part)
			}
		}
		if len(left) > 0 {
			panic(fmt.Sprintf("device: rows %v are valid nowhere", left)) // see storage
		}
		s.valid = s.valid.with(stale)
	}
	return nil
}

// read copies rows from a device to the host.
func (s *storage) read(r *replica, rows span) error {
	dst := s.bytes(rows)
	t, err := r.d.command(func() (provider.Ticket, error) { return r.d.p.Read(dst, r.mem, (rows.from-r.all.from)*s.row) })
	if err == nil {
		_, err = r.d.p.Wait(context.Background(), t)
	}
	if err != nil {
		return fmt.Errorf("fetching rows %d to %d: %w", rows.from, rows.to-1, err)
	}
	r.d.fetched.Add(uint64(len(dst)))
	return nil
}

// supply makes rows valid in a copy: from others on the same device, then from the host, then from other devices by way
// of the host. Caller holds mu.
func (s *storage) supply(r *replica) error {
	for _, lack := range r.valid.lacks(r.all) {
		for _, o := range s.copies.list {
			if o == r || o.d != r.d {
				continue
			}
			for _, part := range o.valid.within(lack) {
				for _, want := range r.valid.lacks(part) {
					if err := s.copyOn(r, o, want); err != nil {
						return err
					}
				}
			}
		}
		for _, want := range r.valid.lacks(lack) {
			if err := s.fetch(want); err != nil {
				return err
			}
			if err := s.write(r, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyOn copies rows between two copies on one device.
func (s *storage) copyOn(dst, src *replica, rows span) error {
	if n := (rows.to - rows.from) * s.row; n > 0 {
		if _, err := dst.d.command(func() (provider.Ticket, error) {
			return dst.d.p.Copy(dst.mem, (rows.from-dst.all.from)*s.row, src.mem, (rows.from-src.all.from)*s.row, n)
		}); err != nil {
			return err
		}
	}
	dst.valid = dst.valid.with(rows)
	return nil
}

// write copies rows from the host to a device.
func (s *storage) write(r *replica, rows span) error {
	if src := s.bytes(rows); len(src) > 0 {
		if _, err := r.d.command(func() (provider.Ticket, error) { return r.d.p.Write(r.mem, (rows.from-r.all.from)*s.row, src) }); err != nil {
			return err
		}
		r.d.sent.Add(uint64(len(src)))
	}
	r.valid = r.valid.with(rows)
	return nil
}
