package engine

import (
	"fmt"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/backoff"
)

// Wait waits for a request and frees it. If it fails with ErrDeadline or
// ErrAborted before the operation is over, the request stays as it is. One
// goroutine at a time may wait for a request. (MPI-4.1 chapter 3.7.3)
func (e *Engine) Wait(h Request, v *View) (Status, error) {
	e.enter()
	if e.dirty != 0 {
		e.flush()
	}
	st, err := e.wait(h, v)
	e.leave()
	return st, err
}

// Waits is a row of waits that enters the engine once. Between BeginWaits and End
// the engine's lock is held while no Wait lasts: the caller must be short and must
// not call the engine otherwise. (MPI-4.1 chapter 3.7.5)
type Waits struct{ e *Engine }

// BeginWaits begins a row of waits.
func (e *Engine) BeginWaits() Waits {
	e.enter()
	if e.dirty != 0 {
		e.flush()
	}
	return Waits{e}
}

// Wait is Engine.Wait.
func (w Waits) Wait(h Request, v *View) (Status, error) { return w.e.wait(h, v) }

// Done ends operations that have succeeded, as Wait does, for a caller that does not need their
// statuses. It ends up to n of them, one after the other, and returns how many: it stops at the
// first that needs Wait. Their handles are parts of the caller's values, which lie side by side
// and have that many bytes each. first is the handle of the first.
func (w Waits) Done(first *Request, bytes uintptr, n int) int {
	free := w.e.freeRequests
	done := 0
	for ; done < n; done++ {
		h := (*Request)(unsafe.Add(unsafe.Pointer(first), uintptr(done)*bytes))
		r := h.r
		if r == nil || r.gen != h.gen || r.phase != phaseDone || r.err != nil {
			break
		}
		r.reset(free)
		free = r
	}
	w.e.freeRequests = free
	return done
}

// End ends the row.
func (w Waits) End() { w.e.leave() }

func (e *Engine) wait(h Request, v *View) (Status, error) {
	r, err := h.resolve()
	if r == nil {
		return emptyStatus, err
	}
	if r.phase != phaseDone {
		if err := e.waitFor(h, v); err != nil {
			return Status{}, err
		}
	}
	st, err := r.status, r.err
	e.freeRequest(r)
	return st, err
}

func (e *Engine) waitFor(h Request, v *View) error {
	if h.r.w != nil || h.r == e.alone {
		return fmt.Errorf("%w: another goroutine waits for it", ErrRequest)
	}
	if err := v.Err(); err != nil {
		return err
	}
	if err := e.awaitRequest(h.r, v); err != nil {
		return err
	}
	_, err := h.resolve() // another goroutine's Test may have freed it
	return err
}

// emptyStatus is the status of an inactive request.
var emptyStatus = Status{Source: AnySource, Tag: AnyTag}

// Test reports whether the request is complete, and frees it if so. It makes
// progress. (MPI-4.1 chapter 3.7.3)
func (e *Engine) Test(h Request) (Status, bool, error) {
	e.enter()
	defer e.leave()
	r, err := h.resolve()
	if r == nil {
		return emptyStatus, err == nil, err
	}
	if r.phase != phaseDone {
		if err := e.aborted(); err != nil {
			return Status{}, false, err
		}
		e.flush()
		e.poll()
		if r.phase != phaseDone {
			e.missed()
			return Status{}, false, nil
		}
	}
	st, err := r.status, r.err
	e.freeRequest(r)
	return st, true, err
}

// missed is called when a caller has looked in vain and may look again at once. Now and then it
// lets other goroutines run. A loop of calls that do not wait would keep its processor for as long
// as the scheduler allows, 10 ms, and the goroutine that it waits for may need that processor. The
// lock is held.
func (e *Engine) missed() {
	if e.misses++; e.misses%backoff.MissEvery == 0 {
		e.stepAside()
	}
}

// Done reports whether waiting for the request would return at once. It makes
// progress and frees nothing; a stale handle is done.
func (e *Engine) Done(h Request) bool {
	e.enter()
	defer e.leave()
	r, _ := h.resolve()
	if r != nil && r.phase != phaseDone {
		e.flush()
		e.poll()
		if r.phase != phaseDone {
			e.missed()
			r, _ = h.resolve()
		}
	}
	return r == nil || r.phase == phaseDone || e.abort.Load() != nil
}

// WaitAny waits until one of the requests is complete and returns its index; Test or Wait then
// frees it. If several are complete, it takes them round robin. It returns -1 if all are inactive,
// and ErrRequest with the index of a stale one. (MPI-4.1 chapter 3.7.5)
func (e *Engine) WaitAny(rs []Request, v *View) (int, error) {
	e.enter()
	defer e.leave()
	if e.dirty != 0 {
		e.flush()
	}
	for {
		i, active, err := e.pick(rs)
		if i >= 0 || err != nil || active == 0 {
			return i, err
		}
		if err := v.Err(); err != nil {
			return -1, err
		}
		w := e.newWaiter()
		w.any = active
		for _, h := range rs {
			if h.r != nil {
				h.r.w = w
			}
		}
		err = e.await(w, v, new(backoff.Spell))
		for _, h := range rs {
			if h.r != nil && h.r.w == w {
				h.r.w = nil
			}
		}
		e.freeWaiting(w)
		if err != nil {
			return -1, err
		}
	}
}

// pick returns the index of a complete request, -1 if there is none, and how
// many are active.
func (e *Engine) pick(rs []Request) (index, active int, err error) {
	index = -1
	e.rotate++
	for k := range rs {
		i := (k + e.rotate) % len(rs)
		r, err := rs[i].resolve()
		switch {
		case err != nil:
			return i, active, err
		case r == nil:
		case r.phase == phaseDone:
			return i, active, nil
		case r.w != nil || r == e.alone:
			return i, active, fmt.Errorf("%w: another goroutine waits for it", ErrRequest)
		default:
			active++
		}
	}
	return -1, active, nil
}
