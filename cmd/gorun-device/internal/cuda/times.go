package cuda

import (
	"errors"
	"time"
	"unsafe"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/driver"
)

// clock is an event from which times are counted. CUDA tells the time between two events only, as a float32 of
// milliseconds: over a second that is good for 60 ns, over a day for none. So there is a new clock from time to time.
type clock struct {
	api   *table
	event uintptr
	at    time.Duration // since the queue was opened
	set   time.Time
	users int // the queue, and events that are counted from it
}

const clockLife = time.Second

// setClock begins to count anew. The stream is empty.
func (q *queue) setClock() error {
	event, err := q.api.create(cuEventCreate, 0)
	if err != nil {
		return err
	}
	c := &clock{api: q.api, event: event, users: 1}
	if err := errors.Join(q.api.status(cuEventRecord, event, q.stream), q.api.status(cuEventSynchronize, event)); err != nil {
		return errors.Join(err, c.drop())
	}
	c.set = time.Now()
	c.at = c.set.Sub(q.opened)
	old := q.clock
	q.clock = c
	if old != nil {
		return old.drop()
	}
	return nil
}

func (c *clock) drop() error {
	if c.users--; c.users > 0 {
		return nil
	}
	return c.api.status(cuEventDestroy, c.event)
}

// since returns the time from one event to another.
func (t *table) since(from, to uintptr) (time.Duration, error) {
	ms := new(float32)
	err := t.status(cuEventElapsedTime, uintptr(unsafe.Pointer(ms)), from, to)
	return time.Duration(float64(*ms) * 1e6), err
}

// runEvent is a kernel under way: an event before it and one behind it.
type runEvent struct {
	clock      *clock
	begin, end uintptr
}

// timed makes a launch between two events.
func (q *queue) timed(launch func() error) (driver.Event, error) {
	begin, err := q.api.create(cuEventCreate, 0)
	if err != nil {
		return nil, err
	}
	end, err := q.api.create(cuEventCreate, 0)
	if err != nil {
		return nil, errors.Join(err, q.api.status(cuEventDestroy, begin))
	}
	q.clock.users++
	e := &runEvent{q.clock, begin, end}
	if err = q.api.status(cuEventRecord, begin, q.stream); err == nil {
		err = launch()
	}
	if err == nil {
		err = q.api.status(cuEventRecord, end, q.stream)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *runEvent) Times() (begin, end time.Duration, err error) {
	api := e.clock.api
	before, err := api.since(e.clock.event, e.begin)
	if err != nil {
		return 0, 0, err
	}
	took, err := api.since(e.begin, e.end)
	begin = e.clock.at + before
	return begin, begin + took, err
}

func (e *runEvent) Close() error {
	api := e.clock.api
	return errors.Join(api.status(cuEventDestroy, e.begin), api.status(cuEventDestroy, e.end), e.clock.drop())
}
