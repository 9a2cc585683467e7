package device

import (
	"context"
	"fmt"

	"github.com/gorun-mpi/gorun/device/provider"
)

// Event is a kernel on its way, or transfers. Copies of it are the same event, and it may be waited for any number of
// times. The zero Event is complete. mpi.RequestOf makes it a request of mpi.
type Event struct {
	d      *driver
	t      provider.Ticket
	kernel string
}

// Wait returns when the kernel is over, with its times. Errors: that of the first command of the device that failed, if this
// is not before it: ErrKernel, ErrLost, ErrClosed.
func (e Event) Wait() (Times, error) { return e.WaitContext(context.Background()) }

// WaitContext is Wait until ctx is done. Then it returns ctx's error, and the kernel goes on.
func (e Event) WaitContext(ctx context.Context) (Times, error) {
	if e.d == nil {
		return Times{}, nil
	}
	times, err := e.d.p.Wait(ctx, e.t)
	if err != nil && ctx.Err() != nil {
		return Times{}, fmt.Errorf("device %s: waiting for kernel %s: %w", e.d.p.Info().ID, e.kernel, err)
	}
	return times, err
}

// Completed reports whether the kernel is over, or has failed.
func (e Event) Completed() bool { return e.d == nil || e.d.p.Done(e.t) }

// Done returns a channel that is closed when the kernel is over, or has failed.
func (e Event) Done() <-chan struct{} {
	c := make(chan struct{})
	e.OnDone(func(error) { close(c) })
	return c
}

// OnDone calls f once, on a goroutine of its own, when the kernel is over, with what Wait returns.
func (e Event) OnDone(f func(error)) {
	go func() {
		_, err := e.Wait()
		f(err)
	}()
}
