package mpi

// Requests are requests that are waited for together, and the first error of the calls that were to begin them. So a group of
// calls needs one check:
//
//	var rs mpi.Requests
//	rs.Add(mpi.Irecv(c, in, left, 0))
//	rs.Add(mpi.Isend(c, out, right, 0))
//	if err := rs.Wait(); err != nil {
//		return err
//	}
//
// The zero Requests is empty. It keeps its memory, so one that is used again does not allocate. One goroutine at a time uses it.
type Requests struct {
	all []Request
	err error
}

// Add takes what a call has returned. After a call that has failed it takes no notice of further errors.
// (MPI-4.1, chapter 3.7.5)
func (rs *Requests) Add(r Request, err error) {
	switch {
	case err == nil:
		rs.all = append(rs.all, r)
	case rs.err == nil:
		rs.err = err
	}
}

// Wait waits for all requests, and leaves rs empty. Errors: that of the first call that could not begin, at once: the requests
// of the others are still active, and Rest returns them; else as Waitall. After ErrDeadline the requests that are not complete
// are still in rs. (MPI-4.1, chapter 3.7.5)
func (rs *Requests) Wait() error {
	if err := rs.err; err != nil {
		rs.err = nil
		return err
	}
	err := WaitallInto(rs.all, nil)
	left := rs.all[:0]
	for _, r := range rs.all {
		if r.c != nil {
			left = append(left, r)
		}
	}
	rs.all = left
	return err
}

// Rest returns the requests that were added and not waited for, in their order, and leaves rs empty. The slice is rs's memory: it
// is valid until the next Add. (MPI-4.1, chapter 3.7.5)
func (rs *Requests) Rest() []Request {
	all := rs.all
	rs.all, rs.err = rs.all[:0], nil
	return all
}
