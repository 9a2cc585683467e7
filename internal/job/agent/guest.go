package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/offload/sessions"
	"github.com/gorun-mpi/gorun/internal/offload/share"
)

// guest makes an offload process take turns on its device with those of other ranks and jobs
// (-devices share). It reads the seats of all (package share) and applies their verdict to its own
// process, which gets memory, is swapped out, or is swapped in again when it has work. After a
// restart all processes are swapped out. A process is swapped in when its ring has commands or the
// program asks it for something.
type guest struct {
	o    *offloader
	seat *share.Held
	ring *offload.Shared
	mem  []byte

	nudged chan struct{} // has a value when a look is due
	end    chan struct{}
	ended  chan struct{}

	// Guarded by the mu of devices.
	said   *offload.Answer // what the process has reported of its memory and is not noted yet
	room   int64           // what it may use when it is started
	byUser bool            // a user has swapped it out: it stays there
	back   chan error      // to a user who wants it in; nil: no user does
	left   time.Duration   // when its last capture began

	// Of its goroutine.
	done     uint64        // commands, at the last look
	out      time.Duration // what swapping it out took
	sentry   chan struct{} // closed when the ring is not watched any more; nil: it is not watched
	dismiss  atomic.Bool   // nobody is to
	received int64         // what the verdict has given
	waits    bool          // for memory, at the last look
}

// The values of -devices.
const (
	devicesShare     = "share"
	devicesExclusive = "exclusive"
)

// choosers are the variables that say which devices a library shows. Where they differ device 0 is another one.
var choosers = []string{"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "OCL_ICD_FILENAMES", "OCL_ICD_VENDORS", "POCL_DEVICES", "ROCR_VISIBLE_DEVICES", "RUSTICL_ENABLE", "ZE_AFFINITY_MASK"}

// place is what names a device to all jobs of this user.
func (o *offloader) place() string {
	words := []string{o.start.Device}
	for _, name := range choosers {
		if v := o.d.a.variable(name); v != "" {
			words = append(words, name+"="+v)
		}
	}
	return strings.Join(words, " ")
}

func (o *offloader) newSeat() share.Seat {
	return share.Seat{Device: o.place(), Exclusive: o.d.a.order.Sharing == devicesExclusive, Job: o.d.job, Rank: o.d.r.rank}
}

// table is where this agent's seats are.
func (a *agent) table() *share.Table {
	a.seatsOnce.Do(func() { a.seats = share.NewTable(share.Folder()) })
	return a.seats
}

// takeSeat gives a process that is about to start its place among those of other jobs. These may
// keep it waiting, so no lock of this agent is held.
func (o *offloader) takeSeat(ring *os.File) (err error) {
	switch o.d.a.order.Sharing {
	case devicesExclusive:
		o.seat, err = o.d.a.table().Join(o.newSeat())
	case devicesShare:
		if o.guest == nil { // it is set nowhere else
			err = o.invite(ring)
		}
	}
	return err
}

// sit makes a process inherit the lock of its seat.
func (o *offloader) sit(cmd *exec.Cmd) {
	switch {
	case o.seat != nil:
		cmd.ExtraFiles = append(cmd.ExtraFiles, o.seat.File)
	case o.guest != nil:
		cmd.ExtraFiles = append(cmd.ExtraFiles, o.guest.seat.File)
		cmd.Args = append(cmd.Args, "-share", "-room", strconv.FormatInt(o.guest.room, 10))
	}
}

// stand gives back the seat of a process that has ended. It may wait as takeSeat does.
func (o *offloader) stand() {
	if o.seat != nil {
		o.seat.Close()
		o.seat = nil
	}
}

// invite begins the turns. It may wait as takeSeat does.
func (o *offloader) invite(ring *os.File) error {
	if err := offload.CheckFile(ring); err != nil {
		return err
	}
	g := &guest{o: o, nudged: make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{})}
	var err error
	if g.mem, err = syscall.Mmap(int(ring.Fd()), 0, offload.Size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED); err != nil {
		return err
	}
	if g.ring, err = offload.Attach(g.mem); err == nil {
		g.seat, err = o.d.a.table().Join(o.newSeat())
	}
	if err != nil {
		return errors.Join(err, syscall.Munmap(g.mem))
	}
	o.d.mu.Lock()
	o.guest = g
	o.d.mu.Unlock()
	go g.run()
	return nil
}

// inviteStored begins the turns of a process whose rank was restored.
func (o *offloader) inviteStored() error {
	o.d.mu.Lock()
	stored := o.stored != nil
	o.d.mu.Unlock()
	if !stored {
		return nil
	}
	ring, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", o.d.r.pid, o.start.Ring), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer ring.Close()
	return o.invite(ring)
}

// nudge makes it look soon.
func (g *guest) nudge() {
	if g == nil {
		return
	}
	select {
	case g.nudged <- struct{}{}:
	default:
	}
}

// asked notes what the process has told. Caller holds mu, as of stop.
func (g *guest) asked(a offload.Answer) {
	if g != nil {
		g.said = &a
		g.nudge()
	}
}

// stop ends the turns; ended is closed then.
func (g *guest) stop() {
	select {
	case <-g.end:
	default:
		close(g.end)
	}
}

// run looks whenever something may have changed.
func (g *guest) run() {
	defer close(g.ended)
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-g.end:
			g.relieve()
			g.seat.Close()
			syscall.Munmap(g.mem)
			return
		case <-g.nudged:
		case <-g.seat.Changed:
		case <-t.C:
		}
		t.Reset(g.look())
	}
}

// How soon it looks again by itself.
const (
	guestSample = 10 * time.Millisecond // others wait: is it idle?
	guestAgain  = 50 * time.Millisecond // it cannot leave now
	guestWaits  = time.Second
	guestRests  = time.Minute
)

// view is what it knows of its own process.
type view struct {
	out, none bool // it is swapped out; there is no process for another reason
	stands    bool // a checkpoint is under way
	wanted    bool // it is to come in
	byUser    bool
	place     string
	used      int64
	memory    int64 // of the device
	said      *offload.Answer
}

func (g *guest) view() view {
	o, d := g.o, g.o.d
	d.mu.Lock()
	defer d.mu.Unlock()
	v := view{place: o.place(), out: o.isOut(), none: o.cmd == nil, stands: d.m.Held(), byUser: g.byUser && g.back == nil, used: o.used, said: g.said}
	v.wanted = g.back != nil || d.m.Asked(o.id) || g.ring.Tail() > g.ring.Done()
	if o.cmd != nil && o.info != nil {
		v.memory = int64(o.info.Memory)
	}
	g.said = nil
	return v
}

// look applies the verdict. It returns when to look again.
func (g *guest) look() (again time.Duration) {
	own := g.view()
	var verdict share.Verdict
	var name string
	var others, quiet bool
	err := g.seat.Update(func(all []share.Seat, mine *share.Seat) {
		now := share.Now()
		mine.Device = own.place
		g.note(now, &own, mine)
		name = mine.Name
		if !own.stands {
			verdict = share.Decide(now, mine.Device, all)
		}
		switch {
		case verdict.Grant == name:
			if mine.Held == 0 {
				mine.In = now
			}
			mine.Held, mine.Since, mine.Idle = mine.Need, 0, 0
			g.received = mine.Held
		case verdict.Refuse == name:
			mine.Need = mine.Held
		case slices.Contains(verdict.Leave, name) && !own.out && !own.none:
			mine.Leaving = true
		}
		g.waits, quiet = mine.Waits(), mine.Need == 0
		others = slices.ContainsFunc(all, func(s share.Seat) bool { return s.Name != name && s.Device == mine.Device && s.Waits() })
		if again = guestRests; verdict.Again > 0 {
			again = max(verdict.Again-now, time.Millisecond)
		}
	})
	switch {
	case err != nil && !own.out && !own.none && !g.waits:
		return guestRests // it has what it needs: the folder may be gone since its user has logged out
	case err != nil:
		g.fail(fmt.Errorf("its turns on the device: %w", err))
		return guestRests
	case verdict.Grant == name && own.out:
		g.comes()
		return 0
	case verdict.Grant == name:
		g.answer(offload.Order{Op: offload.OrderRoom, Bytes: g.received})
		return 0
	case verdict.Refuse == name && own.out:
		g.fail(fmt.Errorf("it had %d bytes on its device, which is more than there is on this one: choose another by gorun swap-in -device ID, or gorun restart -device ID", own.used))
	case verdict.Refuse == name:
		g.answer(offload.Order{Op: offload.OrderRoom, Error: "more than the device has, as other jobs see it (" + offload.EnvMemory + ")"})
	case slices.Contains(verdict.Leave, name) && !own.out && !own.none:
		return g.leaves()
	}
	switch {
	case own.out && quiet && !own.byUser:
		g.watch()
	case own.stands:
		again = min(again, guestAgain)
	case others && !own.out && !own.none:
		again = min(again, guestSample)
	case g.waits:
		again = min(again, guestWaits)
	}
	return again
}

// note writes down how its process is.
func (g *guest) note(now time.Duration, own *view, mine *share.Seat) {
	if own.memory > 0 {
		mine.Memory = own.memory
	}
	switch {
	case own.none:
		if mine.Held > 0 || !own.out {
			if !mine.Waits() || !own.out {
				mine.Need = 0
			}
			mine.Held, mine.Leaving, mine.Idle = 0, false, 0
		}
		if own.out && own.said != nil { // its last words
			mine.Need, mine.Since = own.said.Need, now
		}
		if own.byUser {
			mine.Need = 0
		} else if own.out && own.wanted && mine.Need == 0 {
			mine.Need, mine.Since = max(own.used, 1), now
		}
	case own.said != nil:
		mine.Held, mine.Need = own.said.Memory, own.said.Need
		if mine.Waits() {
			mine.Since = now
		}
	}
	done := g.ring.Done()
	switch {
	case own.none || done != g.done || g.ring.Tail() != done:
		mine.Idle = 0
	case mine.Idle == 0:
		mine.Idle = now
	}
	g.done = done
}

// answer tells the process how much memory it has.
func (g *guest) answer(order offload.Order) {
	g.o.d.mu.Lock()
	defer g.o.d.mu.Unlock()
	g.o.send(order)
}

// leaves swaps it out. It stays if it cannot be now, as during a checkpoint.
func (g *guest) leaves() (again time.Duration) {
	d := g.o.d
	err := g.o.wish(sessions.EvSwapOut, 0)
	d.mu.Lock()
	g.out = share.Now() - g.left
	d.mu.Unlock()
	if err == nil {
		return 0
	}
	g.seat.Update(func(_ []share.Seat, mine *share.Seat) { mine.Leaving = false })
	return guestAgain
}

// comes swaps it in. A device that cannot be had is lost to the rank, unless a user has chosen it:
// the user may choose another.
func (g *guest) comes() {
	o, d := g.o, g.o.d
	g.relieve()
	d.mu.Lock()
	stays := g.byUser && g.back == nil // a user wants it so, since its turn was given
	if !stays {
		g.room = g.received
	}
	d.mu.Unlock()
	if stays {
		return
	}
	begin := share.Now()
	if err := o.wish(sessions.EvSwapIn, 0); err != nil {
		g.fail(err)
		return
	}
	now := share.Now()
	g.seat.Update(func(_ []share.Seat, mine *share.Seat) { mine.Swap, mine.In = g.out+now-begin, now })
	d.mu.Lock()
	defer d.mu.Unlock()
	g.room = 0
	g.tellUser(nil)
}

// fail tells a user who waits, or else the rank, that it does not come back.
func (g *guest) fail(err error) {
	o, d := g.o, g.o.d
	g.seat.Update(func(_ []share.Seat, mine *share.Seat) { mine.Held, mine.Need = 0, 0 })
	d.mu.Lock()
	defer d.mu.Unlock()
	g.room = 0
	switch {
	case g.o.d.over:
		return
	case g.back != nil:
		g.tellUser(err)
		return
	}
	if o.cmd != nil {
		o.how = err.Error()
		o.cmd.Process.Kill()
		return
	}
	o.due, o.how = false, fmt.Sprintf("device %s: %v", o.device(), err)
	d.step(sessions.Event{Type: sessions.EvDied, ID: o.id, Err: o.how})
}

// tellUser answers the user who waits for it. Caller holds mu.
func (g *guest) tellUser(err error) {
	if g.back != nil {
		g.back <- err
		g.back, g.byUser = nil, err != nil
	}
}

// watch starts a goroutine that looks for commands in the ring while there is no process to do so.
func (g *guest) watch() {
	if g.sentry != nil {
		return
	}
	g.dismiss.Store(false)
	gone := make(chan struct{})
	g.sentry = gone
	go func() {
		defer close(gone)
		for !g.dismiss.Load() {
			done := g.ring.Done()
			if g.ring.Tail() != done {
				g.nudge()
				return
			}
			g.ring.WaitTail(done, g.dismiss.Load)
		}
	}()
}

// relieve ends that: the process looks itself.
func (g *guest) relieve() {
	if g.sentry != nil {
		g.dismiss.Store(true)
		g.ring.Nudge()
		<-g.sentry
		g.sentry = nil
	}
}

// enter swaps a process in, by turns if there are any.
func (o *offloader) enter() error {
	g := o.guest
	if g == nil {
		return o.wish(sessions.EvSwapIn, 0)
	}
	back := make(chan error, 1)
	o.d.mu.Lock()
	if g.back != nil {
		o.d.mu.Unlock()
		return errGivenUp
	}
	g.back = back
	o.d.mu.Unlock()
	g.nudge()
	select {
	case err := <-back:
		return err
	case <-g.end:
		return errors.New("the rank, or its use of the device, has ended")
	}
}
