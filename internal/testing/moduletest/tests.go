package moduletest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
)

// Waits is a module that is its rank's Waiter as well.
type Waits interface {
	rpi.Module
	rpi.Waiter
}

// Kinds tests that frames of all kinds arrive as they were sent, with payloads of all lengths that a
// module may treat differently.
func Kinds[Module rpi.Module](t *testing.T, build func(rank int) Module) {
	w := NewWorld(t, 2, build)
	defer w.Close()
	for kind := rpi.Eager; (&rpi.Header{Kind: kind}).Valid(); kind++ {
		for _, n := range []int{0, 1, 8, 40, 41, 96, 97, 460, 2048, 2049, 70_000, rpi.MaxFrame} {
			h := rpi.Header{Kind: kind, Flags: rpi.FlagMirrored, Tag: -3, Type: 9, Ctx: 1 << 63, Len: uint64(n), Req: 11, Off: 1 << 40}
			payload := Pattern(n, h.PayloadLen())
			got := &w.S[1].Got[0]
			before := len(*got)
			w.Send(0, 1, h, payload, 1, false)
			w.Until(fmt.Sprintf("kind %d of %d bytes arrived", kind, n), func() bool { return len(*got) > before || len(w.S[1].Downs) > 0 })
			if err := w.S[1].Downs[0]; err != nil {
				t.Fatalf("kind %d of %d bytes: %v", kind, n, err)
			}
			if f := (*got)[before]; f.Header != h || !bytes.Equal(f.Payload, payload) {
				t.Errorf("kind %d of %d bytes: %+v, or the payload differs", kind, n, f.Header)
			}
		}
	}
}

// Checkpoints tests engines over modules of a kind. Every rank exchanges messages of all protocols
// with every other, from before the first connection on. Meanwhile gates are closed, counts compared
// and the channels found empty. beside, if not nil, begins what else the job does.
func Checkpoints[Module rpi.Module](t *testing.T, build func(rank int) Module, beside func(*Job[Module])) {
	if !engine.Checkpointing {
		t.Skip("built without checkpointing")
	}
	const n, rounds, checkpoints = 4, 25, 12
	before := Descriptors(t)
	j := NewJob(t, n, build, Options{})
	j.Exchange(rounds)
	if beside != nil {
		beside(j)
	}
	for range checkpoints {
		j.CloseGates()()
	}
	j.Wait()
	j.CloseGates()()
	j.Close()
	if after := Descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// ComeBack tests that engines come back from images again and again, while their callers are in the
// middle of messages of all protocols, and of what beside, if not nil, begins. A caller that wakes
// or waits need not know of it. petrify turns a module's descriptors and memory into what they are
// in a process restored from an image.
func ComeBack[Module Waits](t *testing.T, build func(rank int) Module, petrify func(Module), opt Options, beside func(*Job[Module])) {
	const n, rounds, restarts = 4, 25, 10
	before := Descriptors(t)
	j := NewJob(t, n, build, opt)
	j.Exchange(rounds)
	calm := disturb(j.Modules)
	if beside != nil {
		beside(j)
	}
	for range restarts {
		open := j.CloseGates()
		j.Restart(petrify)
		open()
	}
	j.Wait()
	calm()
	j.Close()
	if after := Descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// Restart takes a job whose gates are closed to its next incarnation, through images: see ComeBack.
func (j *Job[Module]) Restart(petrify func(Module)) {
	j.T.Helper()
	j.incarnation++
	for i, m := range j.Modules {
		petrify(m)
		j.begin(i, m.Restart)
	}
	j.meet()
	for _, e := range j.Engines {
		if err := e.Restarted(nil, nil); err != nil {
			j.T.Fatal(err)
		}
	}
}

// Move takes a job whose gates are closed to its next incarnation, over modules of another kind, which build makes.
func (j *Job[Module]) Move(build func(rank int) Module) {
	j.T.Helper()
	j.incarnation++
	before := slices.Clone(j.Modules)
	for i := range j.Modules {
		j.Modules[i] = build(i)
		j.begin(i, j.Modules[i].Start)
	}
	j.meet()
	for i, e := range j.Engines {
		if err := e.Restarted([]rpi.Module{j.Modules[i]}, nil); err != nil {
			j.T.Fatal(err)
		}
		if err := before[i].Close(); err != nil {
			j.T.Error(err)
		}
	}
}

// disturb wakes each module again and again, until calm is called.
func disturb[Module Waits](modules []Module) (calm func()) {
	var wakers sync.WaitGroup
	stop := make(chan struct{})
	for _, m := range modules {
		wakers.Go(func() {
			tick := time.NewTicker(100 * time.Microsecond)
			defer tick.Stop()
			for {
				m.Wake()
				select {
				case <-stop:
					return
				case <-tick.C:
				}
			}
		})
	}
	return func() {
		close(stop)
		wakers.Wait()
	}
}

// WaitAndWake tests that a Wait that comes while the module restarts returns. A later Wait is woken
// by Wake, also by a Wake that came during the restart. wait waits, as an engine does.
func WaitAndWake(t *testing.T, m Waits, wait func()) {
	if _, err := m.Start(Env(0, 1)); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				wait()
			}
		}
	}()
	for k := range 200 {
		m.Wake()
		e := Env(0, 1)
		e.Incarnation = uint64(k)
		if _, err := m.Restart(e); err != nil {
			t.Fatal(err)
		}
		m.Wake()
	}
	close(stop)
	for {
		m.Wake()
		select {
		case <-stopped:
			m.Close()
			return
		default:
		}
	}
}
