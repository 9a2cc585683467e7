package launcher

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// forwarded are the signals that ranks get as the head does. What the terminal
// sends reaches only the head, because agents and ranks have groups of their own.
var forwarded = []os.Signal{
	syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGTSTP,
}

// watchSignals posts this process's signals to the loop until stop is called.
// A signal that was ignored when gorun was started (nohup, a shell's background
// job) stays ignored.
func (h *head) watchSignals() (stop func()) {
	if !h.opt.HandleSignals {
		return func() {}
	}
	c := make(chan os.Signal, 16)
	want := append([]os.Signal{syscall.SIGINT}, forwarded...)
	if h.opt.CkptOnSignal != 0 {
		want = append(want, h.opt.CkptOnSignal)
	}
	for _, s := range want {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	// A job in the background that reads its terminal is to see an error, not
	// to be stopped; see stdinPump.
	signal.Ignore(syscall.SIGTTIN)
	go func() {
		for {
			select {
			case s := <-c:
				h.post(func() { h.signalled(s.(syscall.Signal)) })
			case <-h.done:
				return
			}
		}
	}()
	return func() { signal.Stop(c) }
}

// unwatch has the signals that end a process end this one: nothing of the job is
// left, it only waits for somebody to read the output.
func (h *head) unwatch() {
	if h.opt.HandleSignals {
		signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	}
}

func (h *head) signalled(sig syscall.Signal) {
	switch {
	case h.inc == nil:
	case sig == h.opt.CkptOnSignal:
		h.checkpointAndStop(sig)
	case sig == syscall.SIGINT:
		h.interrupt()
	case sig == syscall.SIGTSTP:
		h.inc.signal(sig)
		go h.suspend(h.inc.links)
	case sig == syscall.SIGTERM || sig == syscall.SIGHUP || sig == syscall.SIGQUIT:
		if h.told {
			h.printer.hurry()
		}
		h.told = true
		if h.inc.count[phaseSpawned] < len(h.inc.ranks) {
			h.finish(verdict{code: exitSignalBase + int(sig), rank: -1, text: "ended by " + signalName(sig)}, false)
			return
		}
		h.inc.signal(sig)
	default:
		h.inc.signal(sig)
		if sig == syscall.SIGCONT {
			h.resumeStdin()
		}
	}
}

// suspend stops this process when the ranks have been told to, by a signal that
// cannot be caught, as the default action would. SIGCONT comes to signalled
// again and goes to the ranks.
func (h *head) suspend(links []*link) {
	limit := time.After(time.Second)
	for _, l := range links {
		select {
		case <-l.out.flushed():
		case <-limit:
		}
	}
	syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// interrupt ends the job: the first time the ranks get the signal and a moment,
// the second time they are killed. Neither waits for whoever reads the output, nor
// does what is said of it.
func (h *head) interrupt() {
	h.printer.hurry()
	if h.end != nil {
		h.inc.kill()
		return
	}
	h.told = true
	h.end = &verdict{code: exitSignalBase + int(syscall.SIGINT), rank: -1, text: "interrupted"}
	h.state = "ending"
	inc := h.inc
	if inc.ending == nil {
		inc.ending = h.end
	}
	if inc.count[phaseSpawned] < len(inc.ranks) {
		inc.kill()
		return
	}
	h.say("interrupted: the ranks end; once more kills them")
	inc.signal(syscall.SIGINT)
	inc.signal(syscall.SIGCONT)
	h.after(politeGrace, inc.kill)
}

// startStdin begins to read standard input, once.
func (h *head) startStdin() {
	if h.stdinUp {
		return
	}
	h.stdinUp = true
	h.resume = make(chan os.Signal, 1)
	go h.stdin.run(h.resume)
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
	h.say("%s: checkpoint and stop", signalName(sig))
	h.request(ckptRequest{stop: true, done: func(_ *Report, err error) {
		if err != nil {
			h.say("the checkpoint on %s failed, the job goes on: %v", signalName(sig), err)
		}
	}})
}

// ParseSignal understands TERM, SIGTERM, term and 15.
func ParseSignal(s string) (syscall.Signal, error) {
	if sig, ok := signalByName(s); ok {
		return sig, nil
	}
	return 0, fmt.Errorf("there is no signal %q: give a name such as TERM or USR1, or a number", s)
}
