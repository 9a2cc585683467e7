package agent

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/offload/sessions"
	"github.com/gorun-mpi/gorun/internal/offload/share"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// A user swaps offload processes out and in, or moves them to other devices. Meanwhile the state of
// a process lies in a file without a name, so nothing is left of it when the rank ends in any way.
// It is in memory (/dev/shm) if twice its size is free there, else in the folder for temporary
// files.

// swap does what a user wants, and answers the head.
func (d *devices) swap(m oob.Msg) {
	var q offload.Swap
	var a offload.Swapped
	if err := json.Unmarshal(m.Data, &q); err != nil {
		a.Errors = []string{err.Error()}
	} else {
		d.swapAll(&q, &a)
	}
	d.a.head.Send(oob.Msg{Kind: oob.Offload, From: int32(d.r.rank), To: oob.Head, B: m.B, Data: wire.JSON(a)})
}

func (d *devices) swapAll(q *offload.Swap, a *offload.Swapped) {
	d.mu.Lock()
	all := d.list()
	d.mu.Unlock()
	for _, o := range all {
		bytes, err := o.swap(q)
		switch {
		case err != nil:
			a.Errors = append(a.Errors, fmt.Sprintf("rank %d: %v", d.r.rank, err))
		case bytes >= 0:
			a.Done++
			a.Bytes += bytes
		}
	}
}

// meant reports whether a request is about this process.
func (o *offloader) meant(q *offload.Swap) bool {
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	if !o.d.m.Has(o.id) || q.Device != "" && !offload.SameDevice(q.Device, o.device()) {
		return false
	}
	out := o.isOut()
	if q.Op == offload.SwapIn {
		return out
	}
	return !out || o.byTurns()
}

// byTurns reports whether it comes in by itself when it is out. Caller holds mu.
func (o *offloader) byTurns() bool { return o.guest != nil && !o.guest.byUser }

// isOut reports whether it is swapped out, or about to come in. Caller holds mu.
func (o *offloader) isOut() bool { return o.stored != nil && o.cmd == nil }

// goOut swaps it out for a user, unless it is out by turns. Then it does not come in by itself any more.
func (o *offloader) goOut(limit time.Duration) error {
	o.d.mu.Lock()
	before := false
	if g := o.guest; g != nil && (g.back != nil || o.user != nil) {
		o.d.mu.Unlock()
		return errSwapping
	} else if g != nil {
		before, g.byUser = g.byUser, true
	}
	out := o.isOut() && !slices.Contains(o.d.m.In(), o.id)
	o.d.mu.Unlock()
	if out {
		return nil
	}
	err := o.wish(sessions.EvSwapOut, limit)
	if err != nil { // it stays, or another caller swaps it: that caller's purpose counts
		o.d.mu.Lock()
		defer o.d.mu.Unlock()
		if o.guest != nil {
			o.guest.byUser = before
		}
	}
	return err
}

// swap does what a user wants with one process. It returns the bytes that were captured, -1 if the process is not meant.
func (o *offloader) swap(q *offload.Swap) (bytes int64, err error) {
	if !o.meant(q) {
		return -1, nil
	}
	limit := time.Duration(q.TimeoutM) * time.Millisecond
	if err := o.alone(limit); err != nil {
		return 0, err
	}
	defer func() { <-o.swapping }()
	o.d.mu.Lock()
	name, before, isOut := o.device(), o.start.Device, o.isOut()
	o.d.mu.Unlock()
	if q.Op == offload.SwapIn && !isOut {
		return 0, nil // an earlier caller has done it
	}
	to, err := offload.InPlaceOf(name, q.To)
	if err != nil {
		return 0, err
	}
	if q.Op != offload.SwapIn {
		if err := o.goOut(limit); err != nil {
			return 0, fmt.Errorf("device %s stays: %w", name, err)
		}
	}
	bytes = o.size()
	if q.Op == offload.SwapOut {
		return bytes, nil
	}
	if err = o.comeBack(to); err == nil {
		return bytes, nil
	}
	err = fmt.Errorf("device %s cannot be had as %s: %w", name, to, err)
	if q.Op != offload.SwapMove {
		return 0, fmt.Errorf("%w; it stays swapped out: name another by gorun swap-in -device ID", err)
	}
	if back := o.comeBack(before); back != nil {
		return 0, fmt.Errorf("%w; nor as %s again: %w; it is swapped out: gorun swap-in -device ID", err, name, back)
	}
	return 0, fmt.Errorf("%w; it goes on as %s", err, name)
}

// errSwapping refuses a swap during another.
var errSwapping = errors.New("it is being swapped: try again")

// alone waits until another user's request for the process is done: each may choose another device
// for it. The caller must then empty swapping.
func (o *offloader) alone(limit time.Duration) error {
	t := time.NewTimer(max(limit, answerLimit))
	defer t.Stop()
	select {
	case o.swapping <- struct{}{}:
		return nil
	case <-t.C:
		o.d.mu.Lock()
		defer o.d.mu.Unlock()
		return fmt.Errorf("device %s: %w", o.device(), errSwapping)
	}
}

// comeBack swaps a process in for a user, on the same device if that is available.
func (o *offloader) comeBack(device string) error {
	o.d.mu.Lock()
	if o.user != nil { // it comes in by its turn, as what it was
		o.d.mu.Unlock()
		return errSwapping
	}
	before := o.start.Device
	o.start.Device = device
	o.d.mu.Unlock()
	err := o.enter()
	if err != nil {
		o.d.mu.Lock()
		defer o.d.mu.Unlock()
		o.start.Device = before
	}
	return err
}

// size is that of what was captured.
func (o *offloader) size() int64 {
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	if o.stored != nil {
		if st, err := o.stored.Stat(); err == nil {
			return st.Size()
		}
	}
	return 0
}

// forget closes what was captured, if something was.
func (o *offloader) forget() {
	if o.stored != nil {
		o.stored.Close() // it was only read
		o.stored = nil
	}
}

// unfinished removes the partial capture of a process that has ended while it wrote it. Caller
// holds mu.
func (o *offloader) unfinished() {
	for _, name := range []*string{&o.where, &o.file} {
		if *name == "" {
			continue
		}
		files, _ := filepath.Glob(*name + ".*" + store.PartSuffix)
		for _, file := range append(files, *name) {
			os.Remove(file)
		}
		*name = ""
	}
}

// wish feeds the request to the machine, and waits. If there is a limit, the process is asked what
// it waits for when the limit is over. A process that does not answer, such as one that is stopped,
// stays.
func (o *offloader) wish(what sessions.EventType, limit time.Duration) error {
	d := o.d
	done := make(chan error, 1)
	d.mu.Lock()
	if o.user != nil || d.over {
		err := errGivenUp
		if o.user != nil {
			err = errSwapping
		}
		d.mu.Unlock()
		return err
	}
	o.user = done
	d.step(sessions.Event{Type: what, ID: o.id})
	d.mu.Unlock()
	var over <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		over = t.C
	}
	givesUp := func(what string) {
		o.late = nil
		d.step(sessions.Event{Type: sessions.EvGiveUp, ID: o.id, Err: fmt.Sprintf("within %v it has not come to its end: it %s", limit, what)})
	}
	asked := false
	for {
		select {
		case err := <-done:
			return err
		case <-over:
			d.mu.Lock()
			if asked {
				over = nil
				if o.user == done {
					givesUp("does not answer")
				}
			} else {
				asked, over, o.late = true, time.After(answerLimit), givesUp
				o.send(offload.Order{Op: offload.OrderLate, Attempt: o.attempt})
			}
			d.mu.Unlock()
		}
	}
}

// answerLimit is how long a process may take to say what it waits for.
const answerLimit = 5 * time.Second

// answerUser answers the user who waits for a swap.
func (o *offloader) answerUser(err error) {
	if o.user != nil {
		o.user <- err
		o.user, o.late = nil, nil
	}
}

// leave makes the process write its state, and end.
func (o *offloader) leave() {
	if o.guest != nil {
		o.guest.left = share.Now()
	}
	o.where = fmt.Sprintf("%s/%s%d-%d-%s", roomFor(uint64(o.used)), captureName(), o.d.r.rank, o.id, rand.Text())
	o.command(offload.Order{Op: offload.OrderCapture, Path: o.where, End: true, Skip: o.skip, Passing: true}, sessions.EvCaptured)
}

// leaves takes the file. It returns why it cannot, or "".
func (o *offloader) leaves() string {
	f, err := os.Open(o.where)
	if err == nil {
		err = os.Remove(o.where)
	}
	o.where = ""
	if err != nil {
		return err.Error()
	}
	o.stored = f
	return ""
}
