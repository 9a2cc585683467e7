package job

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// This file takes a rank from one incarnation to the next in the middle of its program. Its process
// was restored from a native image, which holds it in Ready. The gate is closed and the driver
// sleeps. Goroutines are wherever they were. The reader is in Recv, on a descriptor that is now the
// socket of another agent.
//
//	rank                      agent / head
//	        <----------------- Start      of the new incarnation
//	 Hello, Address --------->            its transports are open again
//	        ...                           until all reach all, see package wireup
//	 Up     ----------------->            the gate is open: calls go on where they were
//	 Hold   ----------------->            if the program waits for a section to begin
//	 FinalizeWant ----------->            if it is in Finalize: this head has not heard
//
// Everything from the earlier life carries the earlier incarnation, so all processes drop it.
//
// The same happens if some ranks move to another node (StartConfig.Moves). The others are in Ready,
// too, and keep their processes: they have not been imaged. There are two differences, because a
// move may fail and all ranks go on where they were. No gate opens before the head knows that all
// are up (Running). And until then a Start of another incarnation may come: then the rank gives up
// its preparations for the one before.

// backendNative is StartConfig.Backend for native images.
const backendNative = "native"

// coming is how far a rank has come on its way into another incarnation.
type coming uint8

const (
	there    coming = iota // not on the way
	joining                // it waits for the others' addresses
	joined                 // it is up, and waits for Running: ranks move
	stranded               // it could not join: ranks move, and another Start may follow
)

// comeBack begins the incarnation that a Start on a running rank announces.
func (d *driver) comeBack(m *oob.Msg) {
	start, err := startOf(m)
	if err != nil {
		start = *d.j.start.Load()
		start.Incarnation = m.Incarnation
	} else {
		err = d.fitting(&start)
	}
	if err != nil {
		d.lostWay(start, err)
		return
	}
	if start.Image != "" {
		token(d.j.noted) // an answer on its way to the former process never comes
	}
	if err := d.reopen(start); err != nil {
		d.strays(start, err)
	}
}

// fitting returns why a Start is not for this rank, or not now.
func (d *driver) fitting(start *oob.StartConfig) error {
	j := d.j
	switch state := d.m.State(); {
	case start.Rank != j.Rank || start.Size != j.Size:
		return fmt.Errorf("this is rank %d of %d, the order to go on is for rank %d of %d", j.Rank, j.Size, start.Rank, start.Size)
	case d.coming == there && (state != ckpt.Ready || !d.closed):
		return fmt.Errorf("it was not ready to be imaged but %v", state)
	case len(d.modules) == 0 && j.Size > 1: // a rank that is alone has none
		return errors.New("this kind of job cannot be restored")
	}
	return nil
}

// reopen opens the transports again. From its beginning all frames of any goroutine belong to the
// new incarnation.
func (d *driver) reopen(start oob.StartConfig) error {
	j := d.j
	if d.join != nil {
		d.modules, d.join = d.join.all(), nil
	}
	d.setWaiter(nil)
	d.discard()
	d.m = newMachine(start)
	d.incarnation, d.attempt, d.due = start.Incarnation, 0, nil
	d.coming = joining
	j.holds.close(start.Moves)
	t, err := newTransports(j.link, start, j.Engine, d.modules)
	if err != nil {
		return err
	}
	d.join = t
	hello := oob.Msg{Kind: oob.Hello, From: int32(start.Rank), To: oob.Head, Incarnation: start.Incarnation, A: oob.VersionMin, B: oob.VersionMax}
	if hello.Data, err = json.Marshal(self()); err != nil {
		return err
	}
	addr, err := t.open()
	if err == nil {
		err = j.link.Send(hello, addr)
	}
	j.start.Store(&start) // the agent has been greeted, or never will be
	j.health.renew()
	return err
}

// rejoin goes on until every rank knows how it reaches every other. Then the program goes on, at once or when all
// others can.
func (d *driver) rejoin(m *oob.Msg) {
	j, t := d.j, d.join
	answer, done, err := t.hear(m)
	if err == nil && !done {
		err = j.link.Send(answer)
	}
	if err != nil {
		d.strays(t.start, err)
		return
	}
	if !done {
		return
	}
	d.modules, d.join, d.coming = t.modules, nil, joined
	d.setWaiter(t.waiter)
	if j.seat != nil {
		j.seat.settle(&t.start)
	}
	j.Engine.SetLocal(t.start.Local)
	if !t.start.Moves {
		d.goOn()
	}
	if err = j.send(oob.Msg{Kind: oob.Up}); err == nil {
		err = j.holdAgain()
	}
	if err == nil {
		err = j.devices.again()
	}
	if err == nil && j.finalizing.Load() {
		err = j.send(oob.Msg{Kind: oob.FinalizeWant, A: j.account.Load()})
	}
	if err != nil {
		j.lost(fmt.Errorf("rank %d: lost the launcher: %w", j.Rank, err))
	}
}

// goOn lets the program go on in the new incarnation.
func (d *driver) goOn() {
	d.coming = there
	d.j.points.setEvery(d.j.start.Load().Points, d.j.Restarted())
	d.open()
	d.j.holds.open()
}

// strays says why the rank cannot take part in an incarnation. If ranks move it stands still, as they may stay
// where they were.
func (d *driver) strays(start oob.StartConfig, err error) {
	if !start.Moves {
		d.lostWay(start, err)
		return
	}
	d.coming = stranded
	err = fmt.Errorf("rank %d cannot go on when ranks move: %w", d.j.Rank, err)
	if e := d.j.link.Send(failure(start, err, oob.FailureStands)); e != nil {
		d.j.lost(errors.Join(err, e))
	}
}

// lostWay reports that the rank cannot go on, and ends its process.
func (d *driver) lostWay(start oob.StartConfig, err error) {
	err = fmt.Errorf("rank %d cannot go on from its image: %w", d.j.Rank, err)
	start.Rank = d.j.Rank
	d.j.lost(errors.Join(err, d.j.link.Send(failure(start, err, oob.FailureOwn))))
}
