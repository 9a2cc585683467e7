package launcher

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/nofile"
)

// Version is the release of gorun.
const Version = "0.1.0"

// head is one job's launcher. Its state belongs to the goroutine that runs
// loop; everybody else posts functions to it.
type head struct {
	opt     Options
	id      string // uuid of the job
	began   time.Time
	control *control
	printer *printer
	stdin   *stdinPump
	prog    program
	cat     *snapshot.Catalogue

	events chan func()
	done   chan struct{} // closed when loop has ended

	inc      *incarnation // the present one
	lives    []*incarnation
	firstID  uint64   // of the first incarnation, until it is used
	restarts int      // restarts so far
	commits  int      // snapshots committed so far
	state    string   // for ps
	end      *verdict // the user's or the clock's reason to end the job; nil: none
	result   *verdict // set when everything is over
	chain    []commit // own commits, oldest first, the snapshot started from before them
	warned   bool     // that files are written to by several ranks
	told     bool     // by a signal to end: no restart
	building bool     // the program is being built
	waiters  waiters
	stdinUp  bool // standard input is being read
	resume   chan os.Signal

	orphans sync.Mutex
	own     map[int]bool // children of this process that are not orphans
}

// Run runs a job to its end and returns gorun's exit status. What the user has
// to know has been said on opt.Stderr.
func Run(opt Options) int {
	h := &head{opt: opt, began: time.Now(), events: make(chan func(), 256), done: make(chan struct{}), own: map[int]bool{}, state: "starting"}
	err := h.run()
	if err != nil {
		h.say("%v", h.withRemedy(err))
		var e *exitError
		if errors.As(err, &e) {
			return e.code
		}
		return ExitFailed
	}
	if h.result.text != "" {
		h.say("%s", h.result.text)
	}
	return h.result.code
}

// verdictOf ends a job with an error.
func (h *head) verdictOf(err error) verdict {
	v := verdict{code: ExitFailed, rank: -1, text: h.withRemedy(err).Error()}
	var e *exitError
	if errors.As(err, &e) {
		v.code = e.code
	}
	return v
}

// withRemedy says what to do about it where the head lacks files.
func (h *head) withRemedy(err error) error { return nofile.Explain(err, h.opt.files(), "") }

// exitError is an error with an exit status of its own.
type exitError struct {
	code int
	error
}

func (e *exitError) Unwrap() error { return e.error }

func (h *head) run() error {
	if err := errors.Join(h.opt.setDefaults(), h.opt.enoughFiles()); err != nil {
		return err
	}
	// The ranks of an agent that dies come to this process, to be reaped here.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("subreaper: %w", err)
	}
	if err := h.prog.find(h.opt.Program, h.opt.Dir); err != nil {
		return err
	}
	h.prog.name = cmp.Or(h.opt.Name, h.prog.name)
	if err := errors.Join(h.identify(), h.openStore()); err != nil {
		return err
	}
	err := h.noRival()
	if err != nil {
		return err
	}
	if h.control, err = h.openControl(); err != nil {
		return err
	}
	defer h.control.close()
	h.printer = newPrinter(h.opt.Stdout, h.opt.Stderr, h.opt.TagOutput)
	if h.opt.Stdin != nil {
		h.stdin = newStdinPump(h.opt.Stdin)
	}
	stop := h.watchSignals()
	defer stop()
	if h.opt.Timeout > 0 {
		t := time.AfterFunc(h.opt.Timeout, func() {
			h.printer.hurry()
			h.post(func() {
				h.finish(verdict{code: ExitTimeout, rank: -1, text: fmt.Sprintf("the job was ended: -timeout %v ran out", h.opt.Timeout)}, true)
			})
		})
		defer t.Stop()
	}
	if h.opt.CkptEvery > 0 {
		t := time.NewTicker(h.opt.CkptEvery)
		defer t.Stop()
		go h.tick(t.C)
	}
	h.start(h.opt.From)
	h.loop()
	h.unwatch()
	err = h.printer.close()
	for stream, name := range []string{1: "output", 2: "error"} {
		if n := h.printer.streams[stream].dropped; n > 0 {
			h.say("nobody has read standard %s: %d bytes for it were dropped", name, n)
		}
	}
	return err
}

// identify gives the job its uuid: a new one, or that of the job that goes on.
func (h *head) identify() error {
	if h.opt.From != nil {
		h.id = h.opt.From.Schema.Job
		return nil
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return err
	}
	h.id = id.String()
	return nil
}

func (h *head) loop() {
	defer close(h.done)
	for h.result == nil {
		f := <-h.events
		f()
	}
	// What must not be left is removed while agents stand by to do it if this
	// process is killed meanwhile.
	if err := errors.Join(h.prog.remove(), h.control.remove()); err != nil {
		h.say("%v", h.withRemedy(err))
	}
	for _, inc := range h.lives {
		inc.dismiss()
		for inc.present() > 0 {
			f := <-h.events
			f()
		}
	}
	h.waiters.fail("the job has ended")
}

// post hands f to the loop; dropped when that has ended.
func (h *head) post(f func()) {
	select {
	case h.events <- f:
	case <-h.done:
	}
}

// after posts f in d; the caller may stop the timer.
func (h *head) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { h.post(f) })
}

// say tells the user something, one line, in order with the ranks' output (see printer).
func (h *head) say(format string, args ...any) {
	line := fmt.Sprintf("gorun: "+format+"\n", args...)
	if h.printer == nil {
		io.WriteString(h.opt.Stderr, line)
	} else if !h.printer.print(printJob{rank: -1, stream: 2, data: []byte(line), credit: func(int) {}}) {
		h.printer.lastly(line)
	}
}

func (h *head) now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

func (h *head) verbose(format string, args ...any) {
	if h.opt.Verbose {
		h.say(format, args...)
	}
}

// start begins an incarnation, from a snapshot or, with nil, from the start.
func (h *head) start(from *snapshot.Snapshot) {
	old := h.inc
	inc, err := newIncarnation(h, from)
	if err != nil {
		v := h.verdictOf(err)
		h.result = &v
		return
	}
	h.inc = inc
	h.lives = append(h.lives, inc)
	if err := inc.startAgents(old); err != nil {
		inc.end(h.verdictOf(err), false)
		return
	}
	if h.prog.built() || !h.prog.isSource() {
		inc.order()
		return
	}
	h.state = "building"
	if h.building {
		return // since an incarnation that lost its agent meanwhile
	}
	h.building = true
	go func() {
		err := h.prog.build(h)
		h.post(func() {
			h.building = false
			if err != nil {
				h.inc.end(h.verdictOf(err), false)
				return
			}
			h.inc.order()
		})
	}()
}

// finish ends the job on somebody's word from outside: no restart follows.
func (h *head) finish(v verdict, polite bool) {
	if h.end == nil {
		h.end = &v
	}
	if h.inc != nil {
		h.inc.end(v, polite)
	}
}

// over decides what follows an incarnation of which nothing runs any more.
func (h *head) over(v *verdict) {
	switch {
	case h.end != nil:
		h.result = h.end
	case v == nil:
		h.result = &verdict{rank: -1}
	case v.died && !h.told && h.restarts < h.opt.Restarts:
		h.restart(v)
	default:
		h.result = v
	}
}

// tick asks for a checkpoint at each tick, unless one is running.
func (h *head) tick(c <-chan time.Time) {
	for {
		select {
		case <-c:
			h.post(func() {
				if h.inc != nil {
					h.inc.periodic()
				}
			})
		case <-h.done:
			return
		}
	}
}

// politeGrace is how long ranks have after ^C before they are killed.
const politeGrace = 3 * time.Second

// lostAfter is the number of unanswered pings after which an agent is lost.
const lostAfter = 6

func hostname() string {
	n, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return n
}
