package mpi

import (
	"errors"
	"fmt"
	"sync"
)

// Work that one rank hands out and the others do, whoever is free. Each worker has one task at a time.

// Map computes work of each of rank 0's tasks, and returns the results on rank 0 in the order of the tasks, nil elsewhere. The other
// ranks do the work: each takes a task when it has none, so tasks may take different times. Rank 0 hands out; if it is alone, it
// works itself. So a job has best one rank more than there are CPUs. All ranks of c call it with the same work, in the order of its
// collectives; the tasks of other ranks are ignored. Tasks and results travel as with SendObject. After an error of work no more
// tasks are begun. No Point may lie in work. Errors, on all ranks: a TaskError; ErrComm; those of the codec; ErrPeerFailed.
func Map[A, R any](c *Comm, tasks []A, work func(A) (R, error)) ([]R, error) {
	var all []R
	err := runPool("Map", c, work, func(p *Pool[A, R]) (err error) {
		all, err = p.Map(tasks)
		return err
	})
	return all, err
}

// RunPool is Map for a program that does not know all tasks when it begins: boss runs on rank 0, and submits tasks to the pool that it
// gets, whose results it may wait for and make further tasks of. When boss has returned, all that was submitted is finished;
// after an error of boss only what has begun. Then RunPool returns on all ranks. Errors, on all ranks: that of boss, on the others
// as its text; ErrComm; ErrPeerFailed.
func RunPool[A, R any](c *Comm, work func(A) (R, error), boss func(*Pool[A, R]) error) error {
	return runPool("RunPool", c, work, boss)
}

func runPool[A, R any](call string, c *Comm, work func(A) (R, error), boss func(*Pool[A, R]) error) error {
	err := c.joins()
	if err == nil && c.inter != nil {
		err = errInter
	}
	if err != nil {
		return c.fail(call, err)
	}
	d, err := c.Dup() // no message of the program is taken for a task
	if err != nil {
		return called(call, err)
	}
	d = d.WithCodec(c.codec)
	if c.rank == 0 {
		p := &Pool[A, R]{c: d, work: work, busy: make([]*Future[R], c.size), served: make(chan struct{})}
		err = p.run(boss)
	} else {
		err = toil(d, work)
	}
	if err == nil || !errors.Is(err, errWire) {
		err = settle(d, err)
	}
	return errors.Join(err, d.Free())
}

// errWire is an error of the messages of a pool: its ranks can agree about nothing any more.
var errWire = errors.New("the pool is broken")

// settle tells all ranks how rank 0's part has ended.
func settle(c *Comm, err error) error {
	text := ""
	if err != nil {
		text = err.Error()
	}
	told, berr := BcastObject(c, text, 0)
	switch {
	case berr != nil:
		return errors.Join(err, berr)
	case err == nil && told != "":
		return fmt.Errorf("rank 0 of the pool: %s", told)
	}
	return err
}

// TaskError is the error that work has returned for a task. Of that error Err has the text alone.
type TaskError struct {
	Rank int // of the communicator
	Err  error
}

func (e *TaskError) Error() string { return fmt.Sprintf("task on rank %d: %v", e.Rank, e.Err) }

// Unwrap returns the error of the task.
func (e *TaskError) Unwrap() error { return e.Err }

// Pool hands tasks out to the other ranks of a communicator. It is rank 0's. Several goroutines may use it at once.
type Pool[A, R any] struct {
	c      *Comm
	work   func(A) (R, error)
	served chan struct{} // closed when no worker is left

	mu    sync.Mutex
	queue []*Future[R] // tasks that nobody has
	idle  []int        // ranks that wait for one
	busy  []*Future[R] // by rank
	open  sync.WaitGroup
	over  bool  // nothing more will be submitted
	err   error // of a message: nothing goes any more
}

// Future is a task that was submitted.
type Future[R any] struct {
	packed []byte // the task
	done   chan struct{}
	v      R
	err    error
}

// Wait returns the result of the task when it is there. It may be called again. Errors: a TaskError with what work has returned;
// those of the codec; ErrPeerFailed.
func (f *Future[R]) Wait() (R, error) {
	<-f.done
	return f.v, f.err
}

// Done returns a channel that is closed when the result is there.
func (f *Future[R]) Done() <-chan struct{} { return f.done }

// Submit hands a task out, to the next rank that has none, in the order of the calls. Where rank 0 is alone it does the task before
// Submit returns. The task is encoded at once, and the caller's again. Errors come with the Future.
func (p *Pool[A, R]) Submit(task A) *Future[R] {
	f := &Future[R]{done: make(chan struct{})}
	p.open.Add(1)
	if f.packed, f.err = encode(p.c, task); f.err != nil {
		p.end(f, nil, p.c.fail("Submit", f.err))
		return f
	}
	if p.c.size == 1 {
		answer, failed := compute(p.c, p.work, f.packed)
		p.answered(f, 0, answer, failed)
		return f
	}
	p.mu.Lock()
	if err := p.err; err != nil {
		p.mu.Unlock()
		p.end(f, nil, err)
		return f
	}
	p.queue = append(p.queue, f)
	rank := 0
	if n := len(p.idle); n > 0 {
		rank, p.idle = p.idle[n-1], p.idle[:n-1]
	}
	p.mu.Unlock()
	if rank > 0 {
		p.serve(rank)
	}
	return f
}

// Map submits all tasks, and returns their results in the same order. Tasks that have not begun when one has failed are not begun.
// Errors: as Future.Wait, of the first task in their order that has failed, with its index.
func (p *Pool[A, R]) Map(tasks []A) ([]R, error) {
	all, out := make([]*Future[R], len(tasks)), make([]R, len(tasks))
	for i, t := range tasks {
		all[i] = p.Submit(t)
		if p.c.size == 1 && all[i].err != nil {
			all = all[:i+1]
			break
		}
	}
	for i, f := range all {
		var err error
		if out[i], err = f.Wait(); err != nil {
			p.forget(all[i:])
			return nil, fmt.Errorf("task %d of %d: %w", i, len(tasks), err)
		}
	}
	return out, nil
}

// forget gives those of some tasks up that have not begun.
func (p *Pool[A, R]) forget(some []*Future[R]) {
	given := make(map[*Future[R]]bool, len(some))
	for _, f := range some {
		given[f] = true
	}
	p.mu.Lock()
	var up, rest []*Future[R]
	for _, f := range p.queue {
		if given[f] {
			up = append(up, f)
		} else {
			rest = append(rest, f)
		}
	}
	p.queue = rest
	p.mu.Unlock()
	for _, f := range up {
		p.end(f, nil, ErrCanceled)
	}
}

// Tags of a pool's messages. What rank 0 sends is tasks, and tagStop; what workers send is answers, and tagStop when they stop.
const (
	tagTask = iota
	tagFailed
	tagStop
)

// run runs boss on rank 0, and ends the pool.
func (p *Pool[A, R]) run(boss func(*Pool[A, R]) error) error {
	for rank := 1; rank < p.c.size; rank++ {
		p.idle = append(p.idle, rank)
	}
	go p.listen()
	err := boss(p)
	if err != nil {
		p.mu.Lock()
		queue := p.queue
		p.mu.Unlock()
		p.forget(queue)
	}
	p.open.Wait()
	p.mu.Lock()
	p.over = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, rank := range idle {
		p.serve(rank)
	}
	<-p.served
	if p.err != nil {
		return p.err
	}
	return err
}

// listen hears what the workers say, until all have stopped.
func (p *Pool[A, R]) listen() {
	defer close(p.served)
	for left := p.c.size - 1; left > 0; {
		answer, st, err := RecvAlloc[byte](p.c, AnySource, AnyTag)
		if err != nil {
			p.fail(err)
			return
		}
		if st.Tag == tagStop {
			left--
			continue
		}
		p.mu.Lock()
		f := p.busy[st.Source]
		p.busy[st.Source] = nil
		p.mu.Unlock()
		p.serve(st.Source)
		p.answered(f, st.Source, answer, st.Tag == tagFailed)
	}
}

// serve gives a rank that has nothing to do the next task, or the word that there will be none.
func (p *Pool[A, R]) serve(rank int) {
	p.mu.Lock()
	tag, packed := tagStop, []byte(nil)
	switch {
	case len(p.queue) > 0:
		f := p.queue[0]
		p.queue = p.queue[1:]
		p.busy[rank], tag, packed = f, tagTask, f.packed
		f.packed = nil
	case !p.over:
		p.idle = append(p.idle, rank)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	if err := Send(p.c, packed, rank, tag); err != nil {
		p.fail(err)
	}
}

// answered ends a task with what a rank has answered.
func (p *Pool[A, R]) answered(f *Future[R], rank int, answer []byte, failed bool) {
	if failed {
		p.end(f, nil, &TaskError{rank, errors.New(string(answer))})
		return
	}
	v, err := decode[R](p.c, "Wait", answer)
	p.end(f, &v, err)
}

func (p *Pool[A, R]) end(f *Future[R], v *R, err error) {
	if f.err = err; err == nil {
		f.v = *v
	}
	close(f.done)
	p.open.Done()
}

// fail ends all tasks: messages cannot be sent or received any more.
func (p *Pool[A, R]) fail(err error) {
	p.mu.Lock()
	if p.err == nil {
		p.err = fmt.Errorf("%w: %w", errWire, err)
	}
	lost := p.queue
	for i, f := range p.busy {
		if f != nil {
			lost = append(lost, f)
		}
		p.busy[i] = nil
	}
	err, p.queue, p.idle = p.err, nil, nil
	p.mu.Unlock()
	for _, f := range lost {
		p.end(f, nil, err)
	}
}

// toil does tasks, until rank 0 has no more.
func toil[A, R any](c *Comm, work func(A) (R, error)) error {
	for {
		packed, st, err := RecvAlloc[byte](c, 0, AnyTag)
		if err == nil && st.Tag == tagStop {
			err = Send(c, []byte{}, 0, tagStop)
			if err == nil {
				return nil
			}
		}
		if err == nil {
			answer, failed := compute(c, work, packed)
			tag := tagTask
			if failed {
				tag = tagFailed
			}
			err = Send(c, answer, 0, tag)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errWire, err)
		}
	}
}

// compute does a task. The answer is the result, or the text of the error.
func compute[A, R any](c *Comm, work func(A) (R, error), packed []byte) (answer []byte, failed bool) {
	task, err := decode[A](c, "Map", packed)
	if err == nil {
		var v R
		if v, err = work(task); err == nil {
			answer, err = encode(c, v)
		}
	}
	if err != nil {
		return []byte(err.Error()), true
	}
	return answer, false
}
