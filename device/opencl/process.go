package opencl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/device/provider"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// patience is how long gorun-device may take to list the devices of all libraries.
const patience = time.Minute

// child is an offload process as this program reaches it: its own child, or one of the agent of this rank.
type child interface {
	order(offload.Order) error
	end() // the process is to end; Gone follows
}

// process is an offload process. It is the offload.Peer of who watches it.
type process struct {
	of     *device
	child  child
	pid    atomic.Int64
	ending atomic.Bool // it was told to end
	over   sync.Once
	gone   chan struct{} // closed when it has ended; then:
	how    string

	hello    chan offload.Answer
	mu       sync.Mutex // of who gives orders
	attempt  uint32
	answers  chan offload.Answer
	answered map[uint32]offload.Answer // that nobody has asked for yet
}

// begin starts a process for the ring of a device, and waits until it has opened the one with that ID. With a capture it begins with what that
// holds, paused, which may take long. If ctx ends before, so does the process.
func begin(ctx context.Context, of *device, id, capture string) (*process, error) {
	p := &process{of: of, gone: make(chan struct{}), hello: make(chan offload.Answer, 1),
		answers: make(chan offload.Answer, 16), answered: map[uint32]offload.Answer{}}
	start := ownChild
	if h := offload.TheHost(); h != nil && !of.alone {
		start = func(s offload.Start, p *process) (child, error) { return agentsChild(h, s, p) }
	} else {
		of.alone = true
	}
	var err error
	if p.child, err = start(offload.Start{Device: id, Ring: int(of.file.Fd()), Restore: capture}, p); err != nil {
		return nil, err
	}
	info, err := p.greeted(ctx)
	if err != nil {
		p.end()
		return nil, err
	}
	of.about.Store(&info)
	go func() {
		<-p.gone
		of.ended(p) // see stays
	}()
	return p, nil
}

// greeted waits for the first answer.
func (p *process) greeted(ctx context.Context) (provider.Info, error) {
	begin := time.Now()
	select {
	case a := <-p.hello:
		return p.greets(a)
	case <-p.gone:
		select {
		case a := <-p.hello:
			return p.greets(a)
		default:
			return provider.Info{}, fmt.Errorf("%w: its offload process has ended before it had opened the device (%s)", provider.ErrLost, p.how)
		}
	case <-ctx.Done():
		return provider.Info{}, fmt.Errorf("it has not opened the device within %v: %w", time.Since(begin).Round(time.Millisecond), context.Cause(ctx))
	}
}

func (p *process) greets(a offload.Answer) (provider.Info, error) {
	switch {
	case a.Error != "":
		return provider.Info{}, errors.New(a.Error)
	case a.Version != offload.Version || a.Info == nil:
		return provider.Info{}, fmt.Errorf("it speaks version %d, this program %d: build both of the same gorun", a.Version, offload.Version)
	}
	return info(*a.Info), nil
}

// Heard takes an answer. A second greeting comes from a process that has replaced this one
// unnoticed.
func (p *process) Heard(a offload.Answer, pid int) {
	if a.Op != offload.Hello {
		select {
		case p.answers <- a:
		default: // more than was asked for
		}
		return
	}
	first := p.pid.Swap(int64(pid)) == 0
	if first {
		p.hello <- a
	} else if info, err := p.greets(a); err == nil {
		p.of.about.Store(&info)
	}
}

// Gone is called when the process has ended, and again for each later request.
func (p *process) Gone(how string) {
	p.over.Do(func() {
		p.how = how
		close(p.gone)
	})
}

// Valid says what need not be captured.
func (p *process) Valid() []uint64 { return p.of.skips() }

// order sends an order and returns its attempt, a new one unless it belongs to one.
func (p *process) order(o offload.Order) (uint32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.Attempt == 0 {
		p.attempt++
		o.Attempt = p.attempt
	}
	err := p.child.order(o)
	if err != nil {
		err = fmt.Errorf("%w: its offload process takes no orders: %w", provider.ErrLost, err)
	}
	return o.Attempt, err
}

// answer waits for the answer to an attempt.
func (p *process) answer(ctx context.Context, attempt uint32) (offload.Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if a, ok := p.answered[attempt]; ok {
			delete(p.answered, attempt)
			if a.Error != "" {
				return a, errors.New(a.Error)
			}
			return a, nil
		}
		var a offload.Answer
		select {
		case a = <-p.answers:
		default:
			select {
			case a = <-p.answers:
			case <-p.gone:
				if len(p.answers) == 0 {
					return a, fmt.Errorf("%w: its offload process has ended (%v)", provider.ErrLost, p.how)
				}
				continue
			case <-ctx.Done():
				return a, ctx.Err()
			}
		}
		p.answered[a.Attempt] = a
	}
}

// obey sends an order and waits for its answer.
func (p *process) obey(ctx context.Context, o offload.Order) (offload.Answer, error) {
	attempt, err := p.order(o)
	if err != nil {
		return offload.Answer{}, err
	}
	return p.answer(ctx, attempt)
}

// end ends the process, which has nothing left to do.
func (p *process) end() {
	p.ending.Store(true)
	p.child.end()
	<-p.gone
}
