package agent

import (
	"fmt"
	"os"

	"github.com/gorun-mpi/gorun/internal/job/bind"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// chooseCPUs chooses the CPUs of each rank if the order binds ranks.
func (a *agent) chooseCPUs() error {
	if a.order.Bind == nil {
		return nil
	}
	failed := func(err error) error {
		return fmt.Errorf("-bind %s on %s: %w", a.order.Bind.Unit, wire.Hostname(), err)
	}
	may, err := bind.Get(0)
	if err != nil {
		return failed(err)
	}
	here, err := bind.Read(os.DirFS(bind.Sys), may)
	if err != nil {
		return failed(fmt.Errorf("%w (-bind none does without)", err))
	}
	masks, err := here.Masks(*a.order.Bind, len(a.order.Ranks))
	if err != nil {
		return failed(err)
	}
	a.cpus = map[int]bind.Set{}
	for i, rank := range a.order.Ranks {
		a.cpus[rank] = masks[i]
	}
	return nil
}

// runOn runs f, which makes a process, on the spawner thread. The process inherits the CPUs given.
// The thread gets its own CPUs back before anything else runs on it. While it is locked Go starts
// no thread from it.
func (a *agent) runOn(cpus bind.Set, f func() error) (err error) {
	a.run1(func() {
		if cpus == nil {
			err = f()
			return
		}
		var own bind.Set
		if own, err = bind.Get(0); err != nil {
			return
		}
		if err = bind.Put(0, cpus); err != nil {
			err = fmt.Errorf("CPUs %s: %w", cpus, err)
			return
		}
		err = f()
		_ = bind.Put(0, own) // if this fails, the next rank is bound as well, starting from these CPUs
	})
	return err
}

// bindRestored binds a rank that was made from an image and stands still.
func (a *agent) bindRestored(r *rankProc, pid int) error {
	cpus := a.cpus[r.rank]
	if cpus == nil {
		return nil
	}
	if err := bind.Process(pid, cpus); err != nil {
		return fmt.Errorf("binding it to CPUs %s: %w", cpus, err)
	}
	return nil
}

// tellCPUs tells the head where a rank runs.
func (a *agent) tellCPUs(r *rankProc) {
	if cpus := a.cpus[r.rank]; cpus != nil {
		a.head.Send(oob.Msg{Kind: oob.Bound, From: int32(r.rank), To: oob.Head, Data: []byte(cpus.String())})
	}
}
