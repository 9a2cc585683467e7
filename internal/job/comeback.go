package job

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// How a rank goes on after its process was restored from a native image. The image holds it in Ready. The gate
// is closed and the driver sleeps. Goroutines are wherever they were. The reader is in Recv, on a descriptor
// that is now the socket of another agent.
//
//	rank                      agent / head
//	        <----------------- Start      of the new incarnation
//	 Hello, Address --------->            its transports are open anew
//	        ...                           until all reach all, see package wireup
//	 Up     ----------------->            the gate is open: calls go on where they were
//	 Hold   ----------------->            if the program waits for a section to begin
//	 FinalizeWant ----------->            if it is in Finalize: this head has not heard
//
// Everything from the earlier life carries the earlier incarnation, so everybody drops it.

// backendNative is StartConfig.Backend for native images.
const backendNative = "native"

// comeBack begins the life that a Start on a running rank announces.
func (d *driver) comeBack(m *oob.Msg) {
	start, err := startOf(m)
	if err != nil {
		start = *d.j.start.Load()
		start.Incarnation = m.Incarnation
	} else {
		err = d.reopen(start)
	}
	if err != nil {
		d.lostWay(start, err)
	}
}

func (d *driver) reopen(start oob.StartConfig) error {
	j := d.j
	switch state := d.m.State(); {
	case start.Rank != j.Rank || start.Size != j.Size:
		return fmt.Errorf("this is rank %d of %d, the order to go on is for rank %d of %d", j.Rank, j.Size, start.Rank, start.Size)
	case state != ckpt.Ready || !d.closed || d.joining != nil:
		return fmt.Errorf("it was not ready to be imaged but %v", state)
	case len(d.modules) == 0 && j.Size > 1: // a rank that is alone has none
		return errors.New("this kind of job cannot be restored")
	}
	d.setWaiter(nil)
	t, err := newTransports(j.link, start, j.Engine, d.modules)
	if err != nil {
		return err
	}
	hello := oob.Msg{Kind: oob.Hello, From: int32(start.Rank), To: oob.Head, Incarnation: start.Incarnation, A: oob.VersionMin, B: oob.VersionMax}
	if hello.Data, err = json.Marshal(self()); err != nil {
		return err
	}
	addr, err := t.open()
	if err != nil {
		return err
	}
	if err := j.link.Send(hello, addr); err != nil {
		return err
	}
	// From here on all that any goroutine says belongs to the new incarnation: the agent has been greeted.
	j.start.Store(&start)
	d.m = newMachine(start)
	d.incarnation, d.attempt, d.due = start.Incarnation, 0, nil
	d.write = nil
	d.joining = t
	return nil
}

// rejoin goes on until every rank knows how it reaches every other. Then it lets the program go on.
func (d *driver) rejoin(m *oob.Msg) {
	j, t := d.j, d.joining
	answer, done, err := t.hear(m)
	if err == nil && !done {
		err = j.link.Send(answer)
	}
	if err != nil {
		d.lostWay(*j.start.Load(), err)
		return
	}
	if !done {
		return
	}
	d.modules, d.joining = t.modules, nil
	d.setWaiter(t.waiter)
	j.Engine.SetLocal(t.start.Local)
	d.open()
	if err = j.send(oob.Msg{Kind: oob.Up}); err == nil {
		err = j.holdAgain()
	}
	if err == nil && j.finalizing.Load() {
		err = j.send(oob.Msg{Kind: oob.FinalizeWant, A: j.account.Load()})
	}
	if err != nil {
		j.lost(fmt.Errorf("rank %d: lost the launcher: %w", j.Rank, err))
	}
}

// lostWay reports that the rank cannot go on, and ends its process.
func (d *driver) lostWay(start oob.StartConfig, err error) {
	err = fmt.Errorf("rank %d cannot go on from its image: %w", d.j.Rank, err)
	start.Rank = d.j.Rank
	d.j.lost(errors.Join(err, d.j.link.Send(failure(start, err, false))))
}
