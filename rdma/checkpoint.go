package rdma

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// Gather gives each rank what all ranks have said, by rank, this one included. All ranks call it equally often. It is the program's own means.
type Gather func(own []byte) (all [][]byte, err error)

// Exchange gives each rank the values of all ranks, by rank. Package encoding/gob carries them.
func Exchange[T any](gather Gather, own T) ([]T, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(&own); err != nil {
		return nil, fmt.Errorf("rdma: exchange: %w", err)
	}
	said, err := gather(b.Bytes())
	if err != nil {
		return nil, err
	}
	all := make([]T, len(said))
	for rank, data := range said {
		if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&all[rank]); err != nil {
			return nil, fmt.Errorf("rdma: exchange: rank %d: %w", rank, err)
		}
	}
	return all, nil
}

// round is what a rank says while all become quiet.
type round struct {
	Counts []virtual.Count
	Quiet  bool
	Err    string
}

// Quiesce stops the program's requests and waits until nothing moves between the ranks any more. All ranks call it. Completions that come meanwhile are
// polled after Continue. If one rank fails, all return an error and have continued.
func (d *Device) Quiesce(gather Gather) error {
	d.v.Quiesce()
	for {
		quiet, failed := d.v.Quiet()
		own := round{Counts: d.v.Counts(), Quiet: quiet}
		if failed != nil {
			own.Err = failed.Error()
		}
		all, err := Exchange(gather, own)
		if err != nil {
			d.v.Continue()
			return err
		}
		for rank, r := range all {
			if r.Err != "" {
				d.v.Continue()
				return errors.Join(failed, fmt.Errorf("rdma: no checkpoint: rank %d: %s", rank, r.Err))
			}
			quiet = quiet && r.Quiet
		}
		if quiet {
			return d.mark.Set(false)
		}
		for rank, r := range all {
			d.v.Tell(rank, to(d.v.Rank, r.Counts))
		}
	}
}

// to returns the counts for a rank.
func to(rank int, counts []virtual.Count) (list []virtual.Count) {
	for _, c := range counts {
		if c.To.Rank() == rank {
			list = append(list, c)
		}
	}
	return list
}

// Continue ends Quiesce: the program goes on in this process.
func (d *Device) Continue() {
	_ = d.mark.Set(true) // it takes no memory, so it does not fail
	d.v.Continue()
}

// Image returns what another process needs to go on, after Quiesce. The bytes of regions are the program's to keep, as they are before Continue.
func (d *Device) Image() ([]byte, error) { return d.v.MarshalBinary() }

// Load makes a device of an image, and goes on where that was made. All ranks call it. memory tells where the bytes of a region are now, nil if nowhere: then
// the region is as if closed. Provider and device are as in Open.
func Load(image []byte, providerName, device string, memory func(region ID) []byte, gather Gather) (*Device, error) {
	v, err := virtual.Load(image, memory)
	if err != nil {
		return nil, err
	}
	d, err := newDevice(v)
	if err != nil {
		return nil, err
	}
	return d, d.start(providerName, device, gather)
}

// Restart goes on with another device, after Quiesce. All ranks call it. restored says that this process is a restored image: the former device is forgotten. Otherwise it is closed.
func (d *Device) Restart(providerName, device string, restored bool, gather Gather) error {
	err := d.mark.Set(true)
	if old := d.v.Real(); restored {
		old.Abandon()
	} else {
		err = errors.Join(err, old.Close())
	}
	return errors.Join(err, d.start(providerName, device, gather))
}

// start opens a device and brings all there that is in the tables.
func (d *Device) start(providerName, device string, gather Gather) error {
	own := struct {
		Book virtual.Book
		Err  string
	}{}
	real, err := open(providerName, device)
	if err == nil {
		if err = d.v.Restart(real); err != nil {
			err = errors.Join(err, real.Close())
		}
		own.Book = d.v.Book()
	}
	if err != nil {
		own.Err = err.Error()
	}
	all, gerr := Exchange(gather, own)
	if err != nil || gerr != nil {
		return errors.Join(err, gerr)
	}
	for rank, r := range all {
		if r.Err != "" {
			return fmt.Errorf("rdma: rank %d has not restarted: %s", rank, r.Err)
		}
		d.v.Learn(r.Book)
	}
	return d.v.Resume()
}
