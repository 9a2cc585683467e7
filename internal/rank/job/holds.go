package job

import (
	"errors"
	"sync"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// ErrNotHeld is returned by a Release without a Hold.
var ErrNotHeld = errors.New("nothing is held")

// ErrNoHold is returned by Hold if the gorun that runs the job does not support it.
var ErrNoHold = errors.New("this gorun is older than the program's library and cannot keep checkpoints off: run it with one of the same release")

// holds are the sections of this rank's program in which no checkpoint may be taken. Sections that
// overlap, nested or of several goroutines, are one to the head. Package ckpt describes what it
// does.
type holds struct {
	mu     sync.Mutex
	count  int
	number uint64        // of the newest that the head was asked for
	where  string        // the place in the program
	in     chan struct{} // closed when the head has granted it

	closed  bool   // ranks move, and may yet stay where they were: no section begins
	granted uint64 // the one that may begin when they have moved; 0: none
}

// Hold begins a section; where says which. When it returns no checkpoint is taken until Release. It
// waits if one is being taken.
func (j *Job) Hold(where string) error {
	h := &j.holds
	start := j.start.Load()
	switch {
	case j.link == nil || start.CR == "": // no checkpoints
		h.mu.Lock()
		h.count++
		h.mu.Unlock()
		return nil
	case !start.Holds:
		return ErrNoHold
	}
	in, err := j.ask(where)
	if err == nil {
		select {
		case <-in:
		case <-j.ended:
		}
	}
	return err
}

// ask sends the question to the head, if no other section is open.
func (j *Job) ask(where string) (in chan struct{}, err error) {
	h := &j.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == 0 {
		h.number++
		h.in, h.where = make(chan struct{}), where
		err = j.sayHold()
	}
	if err == nil {
		h.count++
	}
	return h.in, err
}

// sayHold asks the head. Caller holds mu, so that no frame of an earlier life can come in between.
func (j *Job) sayHold() error {
	return j.send(oob.Msg{Kind: oob.Hold, A: j.holds.number, Data: []byte(j.holds.where)})
}

// Release ends a section. The last one permits checkpoints again.
func (j *Job) Release() error {
	h := &j.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == 0 {
		return ErrNotHeld
	}
	if h.count--; h.count > 0 || j.link == nil || j.start.Load().CR == "" {
		return nil
	}
	return j.send(oob.Msg{Kind: oob.Release, A: h.number})
}

// held takes the head's answer.
func (h *holds) held(number uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.in == nil || number != h.number:
		return
	case h.closed:
		h.granted = number
		return
	}
	select {
	case <-h.in: // it was asked again
	default:
		close(h.in)
	}
}

// close keeps sections from beginning. What a former incarnation has granted is void.
func (h *holds) close(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed, h.granted = on, 0
}

// open lets sections begin again, one that was granted meanwhile too.
func (h *holds) open() {
	h.mu.Lock()
	granted := h.granted
	h.closed, h.granted = false, 0
	h.mu.Unlock()
	if granted != 0 {
		h.held(granted)
	}
}

// holdAgain asks the head of a new life. The image was made while the rank waited, as none is made in a section.
func (j *Job) holdAgain() error {
	h := &j.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == 0 {
		return nil
	}
	return j.sayHold()
}
