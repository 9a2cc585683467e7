package head

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/system/proc"
)

// forwarded are the signals that the head passes on to ranks. A terminal's signals reach only the
// head, because agents and ranks have process groups of their own.
var forwarded = []os.Signal{
	syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGTSTP,
}

// watchSignals posts this process's signals to the loop until stop is called.
// A signal that was ignored when gorun was started (nohup, a shell's background
// job) stays ignored, unless it is the one that -ckpt-on-signal asks for.
func (h *head) watchSignals() (stop func()) {
	if !h.opt.HandleSignals {
		return func() {}
	}
	c := make(chan os.Signal, 16)
	want := append([]os.Signal{syscall.SIGINT}, forwarded...)
	h.ending = heeded(ending)
	if h.opt.CkptOnSignal != 0 {
		want = append(want, h.opt.CkptOnSignal)
	}
	for _, s := range want {
		if s == h.opt.CkptOnSignal || !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	// A job in the background that reads its terminal is to see an error, not
	// to be stopped; see stdio.Pump.
	signal.Ignore(syscall.SIGTTIN)
	go func() {
		for {
			select {
			case s := <-c:
				if sig, now := s.(syscall.Signal), time.Now(); h.orders.fresh(sig, now) {
					h.post(func() { h.signalled(sig) })
				}
			case <-h.done:
				return
			}
		}
	}()
	return func() { signal.Stop(c) }
}

// ending are the signals that tell gorun to end the job.
var ending = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// heeded returns the given signals without those that gorun was started to ignore, as by nohup.
func heeded(all []os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(all), signal.Ignored)
}

// newestOrder distinguishes a second order from one that is delivered twice: timeout, shells and a
// closing terminal send a signal to gorun and again to its process group, which contains gorun.
type newestOrder struct {
	last syscall.Signal
	at   time.Time
}

// sameOrder is how long a repeated signal counts as the same order.
const sameOrder = 300 * time.Millisecond

func (o *newestOrder) fresh(sig syscall.Signal, now time.Time) bool {
	if !slices.Contains(ending, os.Signal(sig)) {
		return true
	}
	same := sig == o.last && now.Sub(o.at) < sameOrder
	if !same {
		o.last, o.at = sig, now
	}
	return !same
}

// unwatch lets the signals that end a job end this process: the job is gone, and gorun only waits
// for a reader of the output. SIGQUIT would otherwise print the stacks of gorun's goroutines.
func (h *head) unwatch() {
	if !h.opt.HandleSignals {
		return
	}
	signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if slices.Contains(h.ending, os.Signal(syscall.SIGQUIT)) {
		quit := make(chan os.Signal, 1)
		signal.Notify(quit, syscall.SIGQUIT)
		go func() {
			<-quit
			os.Exit(spec.ExitSignalBase + int(syscall.SIGQUIT))
		}()
	}
}

func (h *head) signalled(sig syscall.Signal) {
	switch {
	case h.job == nil:
	case sig == h.opt.CkptOnSignal && !(h.stopping && slices.Contains(ending, os.Signal(sig))): // the second signal is final
		h.checkpointAndStop(sig)
	case sig == syscall.SIGINT:
		h.interrupt()
	case sig == syscall.SIGTSTP:
		h.passOn(sig)
		if h.leases() || h.fleet != nil && h.fleet.Remote() {
			h.say("the ranks are stopped; gorun goes on, because their nodes end them if it stops renewing their leases; kill -CONT %d lets them go on", os.Getpid())
			return
		}
		go h.suspend(h.inc.links)
	case sig == syscall.SIGTERM || sig == syscall.SIGHUP || sig == syscall.SIGQUIT:
		if h.told {
			h.printer.Hurry()
		}
		if !h.told {
			time.AfterFunc(h.opt.Grace, h.printer.Hurry)
		}
		h.told = true
		v := verdict{Code: spec.ExitSignalBase + int(sig), Rank: -1, Text: "ended by " + joblife.SignalName(sig)}
		h.feed(joblife.Event{Type: joblife.EvStop, Signal: sig, Verdict: &v})
	default:
		h.passOn(sig)
		if sig == syscall.SIGCONT {
			go h.storage.GoesOn()
			h.resumeStdin()
		}
	}
}

// passOn gives a signal to all ranks.
func (h *head) passOn(sig syscall.Signal) {
	h.feed(joblife.Event{Type: joblife.EvSignal, Signal: sig})
}

// suspend stops this process after its ranks, by a signal that cannot be caught, as the default
// action would. SIGCONT comes to signalled again and goes to the ranks.
func (h *head) suspend(links []*link) {
	limit := time.After(time.Second)
	for _, l := range links {
		select {
		case <-l.out.Flushed():
		case <-limit:
		}
	}
	h.storage.Stands()
	syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// interrupt ends the job, the second time at once. It does not wait for a reader of the output.
func (h *head) interrupt() {
	h.printer.Hurry()
	h.feed(joblife.Event{Type: joblife.EvInterrupt})
}

// startStdin begins to read standard input, once.
func (h *head) startStdin() {
	if h.stdinUp {
		return
	}
	h.stdinUp = true
	h.resume = make(chan os.Signal, 1)
	go h.stdin.Run(h.resume)
}

// resumeStdin lets the reader try its terminal again.
func (h *head) resumeStdin() {
	select {
	case h.resume <- syscall.SIGCONT:
	default:
	}
}

// checkpointAndStop is what -ckpt-on-signal asks for.
func (h *head) checkpointAndStop(sig syscall.Signal) {
	h.say("%s: checkpoint and stop", joblife.SignalName(sig))
	h.stopping = true
	h.request(ckptRequest{stop: true, patient: true, done: func(_ *control.Report, err error) {
		h.stopping = false
		if err != nil && h.job.Steady() { // if not steady, the job's end is the cause
			h.say("the checkpoint on %s failed, the job goes on: %v", joblife.SignalName(sig), err)
		}
	}})
}

// ParseSignal understands TERM, SIGTERM, term and 15.
func ParseSignal(s string) (syscall.Signal, error) {
	if sig, ok := proc.Signal(s); ok {
		return sig, nil
	}
	return 0, fmt.Errorf("there is no signal %q: give a name such as TERM or USR1, or a number", s)
}
