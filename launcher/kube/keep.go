package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/keeper"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
)

// How a keeper waits for its head.
const (
	pauseFirst = 100 * time.Millisecond // between two calls
	pauseLast  = 3 * time.Second
	sayFirst   = 10 * time.Second // that there is no answer yet
	sayEvery   = time.Minute
)

// Keep is the life of a pod whose index is not 0; it returns the process's exit status. It calls
// home until the head answers, is the keeper of its node, and starts over when the head is lost or
// the job has not ended well. It ends when the job has ended well, and by a signal.
func (p *Pod) Keep(stderr io.Writer) int {
	say := func(format string, args ...any) {
		fmt.Fprintf(stderr, "gorun: "+p.Name(p.Index)+": "+format+"\n", args...)
	}
	t, err := p.Ticket()
	if err != nil {
		say("%v", err)
		return joblife.Failed
	}
	say("keeper of node %d; calls %s until the head answers (Secret: %s)", p.Index, t.Addresses[0], p.Source)
	told := keeper.Told()
	for w := newWait(say); ; w.sleep() {
		stream, s, err := callUnlessTold(t, told)
		if s != nil {
			say("ended by %s", joblife.SignalName(s.(syscall.Signal)))
			return joblife.Failed
		}
		if err == nil {
			err = keeper.Keep(stream, told)
			if !errors.Is(err, keeper.ErrTurned) {
				return p.after(err, say)
			}
		}
		w.failed(err)
	}
}

// after says how the life of a keeper has ended. If the pod is to wait for another head, the
// process starts over, without the lease of the old one.
func (p *Pod) after(err error, say func(string, ...any)) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, keeper.ErrEnded):
		say("%v", err)
		return joblife.Failed
	}
	say("%v: calls again", err)
	say("%v", syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	return joblife.Failed
}

// callUnlessTold calls home once. A signal that comes meanwhile is returned.
func callUnlessTold(t rendezvous.Ticket, told <-chan os.Signal) (stream oob.Stream, s os.Signal, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := make(chan struct{})
	go func() {
		stream, err = rendezvous.Call(ctx, t)
		close(over)
	}()
	select {
	case <-over:
	case s = <-told:
		cancel()
		if <-over; err == nil {
			stream.Close()
		}
	}
	return
}

// wait is the time between two calls, longer and longer.
type wait struct {
	pause time.Duration
	next  time.Time // when the user is told again
	say   func(string, ...any)
	now   func() time.Time
}

func newWait(say func(string, ...any)) *wait {
	return &wait{pause: pauseFirst, next: time.Now().Add(sayFirst), say: say, now: time.Now}
}

// failed tells the user now and then why there is no answer.
func (w *wait) failed(err error) {
	if now := w.now(); !now.Before(w.next) {
		w.next = now.Add(sayEvery)
		w.say("no answer yet: %v", err)
	}
}

// sleep waits. A signal that comes is found by the next call.
func (w *wait) sleep() {
	time.Sleep(w.pause)
	w.pause = min(2*w.pause, pauseLast)
}
