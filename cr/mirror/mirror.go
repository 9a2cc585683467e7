// Package mirror keeps the state of a program's ranks in the memory of other nodes, for programs
// that steer themselves. A rank that is lost gets its state back from there, seconds old, without a
// disk, and all others go back to the same epoch.
//
//	rank 0 (node a)           rank 1 (node b)           rank 2 (node c)
//	  Start: copy x             Start: copy x             Start: copy x       the program goes on at once
//	  own image | of 2          own image | of 0          own image | of 1
//	       `------------------------^ `-----------------------^ ...           behind the program
//	  Commit                    Commit                    Commit              all is whole everywhere
//
//	node b is lost:           a spare: Restore          Restore: epoch 7
//	  Restore: epoch 7          gets x of 1 from c
//
// A description is one kind of state: a name, regions of memory, and how they are protected. A world may have several, each
// with a policy and a pace of its own. Their calls are collective, in the same order on all ranks: Open, Restore, Start,
// Commit. The intended pattern is
//
//	d.Restore(ctx)                      // in each life first; 0: there is nothing, begin
//	for ; step < steps; step++ {
//		compute
//		if step%10 == 0 {
//			d.Commit(ctx)       // the one before; it has long been there
//			d.Start(ctx)        // copies, and returns
//		}
//	}
//
// The k-th Starts of all ranks are a cut: no message may cross it. An epoch is whole or absent. It can be restored once it is whole everywhere,
// whether Commit was called or not; Commit tells that it is.
//
// Run calls the program's function again after a failure, on survivors in the same process. Two Transports bring
// ranks together: package mpiworld for programs of mpi, and package tcpworld, with spares, for all others. This package imports neither mpi
// nor the launcher.
//
// The calls are those of GPI_CP (Bartsch et al.), without some of its limits: survivors go back as well, sizes may differ by rank
// and from epoch to epoch, a node never holds its own ranks' replicas, several nodes may be lost at once, and every block has a sum.
//
// Blocks that have not changed since the epoch before do not travel, and parity is not computed again of them.
//
// The memory that a description needs, for images of S bytes: 2 S for the rank's own, and 2 S for each replica that it holds (Code: 2 S Parity/Data). It
// is kept and used again.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/cr/mirror/internal/machine"
	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
)

// Options say how a description is protected. They are the same on all ranks.
type Options struct {
	// Policy says who holds what. Nil: Ring(Copies), Ring(1) if Copies is 0.
	Policy Policy
	// Copies is how many nodes may be lost at once. Open refuses a policy that promises fewer. 0: what the policy promises will do.
	Copies int
	// Target is what pieces are kept in. The zero Target is Memory.
	Target Target
}

func (o *Options) policy() Policy {
	if o.Policy == nil {
		return Ring(max(1, o.Copies))
	}
	return o.Policy
}

// Description is one kind of state of all ranks. Its calls are made by one goroutine at a time.
type Description struct {
	k       *keep
	life    uint32
	regions []region
	entered bool // Restore was called
	closed  bool
	removed bool
}

var names = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// Open opens the description of a name, in the present life of the world. What earlier lives have kept under that name is there for
// Restore. Open is not collective by itself: Restore finds out whether all ranks have given equal options.
//
// Errors: no life was joined (see Run); a name other than 1 to 64 letters, digits, '.', '-' and '_'; a policy that promises less than
// Copies, or for which there are too few nodes; a target that cannot be used.
func Open(world *World, name string, o Options) (*Description, error) {
	life := world.now()
	policy := o.policy()
	switch {
	case life == nil:
		return nil, fmt.Errorf("mirror: Open(%q): this process is in no life of the world: call it in the function of Run, or after Join", name)
	case !names.MatchString(name) || name == "." || name == "..":
		return nil, fmt.Errorf("mirror: Open(%q): a name has 1 to 64 letters, digits, '.', '-' and '_'", name)
	case o.Copies < 0:
		return nil, fmt.Errorf("mirror: Open(%q): Copies is %d, and cannot be less than 0", name, o.Copies)
	case o.Copies > 0 && policy.Promise().Nodes < o.Copies:
		return nil, fmt.Errorf("mirror: Open(%q): policy %v survives %v, and %d were asked for", name, policy, policy.Promise(), o.Copies)
	}
	plan, err := machine.NewPlan(placement(life.Ranks), policy)
	if err != nil {
		return nil, fmt.Errorf("mirror: Open(%q): %w", name, err)
	}
	k := world.keep(name)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.idle()
	if k.st == nil {
		if k.st, err = openStorage(o.Target, name, life.Rank); err != nil {
			k.st = nil
			return nil, fmt.Errorf("mirror: Open(%q): %w", name, err)
		}
		k.m, k.pieces = machine.New(life.Rank), map[machine.Name]*piece{}
		k.st.load(k.st.own, k.pieces, k.m.Adopt)
	} else if k.st.Target != o.Target {
		return nil, fmt.Errorf("mirror: Open(%q): its target was %v, and cannot become %v", name, k.st.Target, o.Target)
	}
	k.opt, k.plan = o, plan
	return &Description{k: k, life: life.Number}, nil
}

// Region makes memory part of the description: ptr points to a slice, or to a value of fixed size. Elements are numbers,
// booleans, and arrays and structs of these. All are named before Restore, in the same order each time. The memory stays the program's. Start reads it, and Restore
// sets it: a slice gets the length that it had.
func (d *Description) Region(name string, ptr any) error {
	r, err := newRegion(name, ptr)
	if err == nil && slices.ContainsFunc(d.regions, func(r region) bool { return r.name == name }) {
		err = fmt.Errorf("region %q was named before", name)
	}
	if err != nil {
		return d.fail("Region", err)
	}
	d.regions = append(d.regions, r)
	return nil
}

// fail names the description.
func (d *Description) fail(call string, err error) error {
	return fmt.Errorf("mirror: %s of %q, rank %d: %w", call, d.k.name, d.k.rank(), err)
}

// errClosed says that it was closed or removed.
var errClosed = errors.New("it was closed")

// ready reports why no call may be made. Caller holds mu.
func (d *Description) ready() error {
	if d.closed || d.k.m == nil {
		return errClosed
	}
	if err := d.k.w.over(); err != nil {
		return err
	}
	if life := d.k.w.now(); life.Number != d.life {
		return fmt.Errorf("it was opened in life %d, and this is life %d: open it again: %w", d.life, life.Number, ErrFailed)
	}
	return nil
}

// Restore sets the regions to the newest epoch that is whole everywhere, the same on all ranks, and
// returns its number; 0 if there is none, and the regions stay as they are. It is the first
// collective call in each life. Before it returns, images that were lost are made again from what
// others hold, and so is whatever else a lost node held: the description is as well protected as
// before. A damaged piece is passed over, and made again from another copy.
//
// It may be called again, by all ranks, to go back.
//
// Errors: ErrLost with epoch 0 if too little is left of a committed epoch: the program may start
// over; ErrMismatch if ranks differ in their options, or an image in its regions; ErrFailed; the
// error of ctx, after which Restore may be called again to wait further.
func (d *Description) Restore(ctx context.Context) (epoch int, err error) {
	k := d.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := d.ready(); err != nil {
		return 0, d.fail("Restore", err)
	}
	began := time.Now()
	d.entered = true
	if !k.waiting || k.life != d.life { // else ctx ended an earlier call
		d.enter()
	}
	lctx, stop := both(ctx, k.w.context())
	defer stop()
	for k.waiting {
		k.wait(lctx)
		if err := d.ready(); err != nil {
			return 0, d.fail("Restore", err)
		}
		if err := ctx.Err(); err != nil && k.waiting {
			return 0, d.fail("Restore", err)
		}
	}
	if k.refused != "" {
		return 0, d.fail("Restore", fmt.Errorf("%s: %w", k.refused, ErrMismatch))
	}
	cut, lost := k.resume.Cut, k.resume.Lost
	if cut == (twoslots.Cut{}) {
		if lost != (twoslots.Cut{}) {
			return 0, d.fail("Restore", fmt.Errorf("epoch %d: policy %v survives %v: %w", lost.Seq, k.plan.Policy, k.opt.policy().Promise(), ErrLost))
		}
		return 0, nil
	}
	own := machine.Image(k.rank())
	for i, c := range k.m.Slots(own) {
		if c == cut {
			sl := &k.pieces[own].slots[i]
			if err := unpack(sl.room[:sl.meta.Size], d.regions); err != nil {
				return 0, d.fail("Restore", fmt.Errorf("epoch %d: %w", cut.Seq, err))
			}
		}
	}
	k.stats.Restore = time.Since(began)
	return int(cut.Seq), nil
}

// enter begins a census. Caller holds mu.
func (d *Description) enter() {
	k := d.k
	k.idle()
	again := k.life == d.life
	k.life, k.waiting, k.resume, k.refused = d.life, true, nil, ""
	k.do(k.m.Enter(k.rank(), k.plan, fmt.Sprintf("policy %v and target %s", k.plan.Policy, k.st.kind()), again))
	early := k.early
	k.early = nil
	for _, l := range early {
		switch {
		case k.here(l.life, l.head):
			k.take(l)
		case l.life == k.life && l.head.Turn > k.turn():
			k.early = append(k.early, l)
		}
	}
}

// Start begins an epoch: it copies the regions and returns. The copies travel behind the program, which may write to the regions at once.
//
// Errors: the epoch before was not committed yet; Restore has not returned in this life; ErrFailed; no room for the copy, after which the epoch is given up on
// all ranks.
func (d *Description) Start(ctx context.Context) error {
	k := d.k
	began := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := cmpErr(ctx.Err(), d.ready()); err != nil {
		return d.fail("Start", err)
	}
	if !d.entered { // it may have been opened with another policy than the one before
		return d.fail("Start", machine.ErrOutside)
	}
	_, done, goneFor := k.m.State()
	if goneFor != "" {
		for k.working > 0 && ctx.Err() == nil { // its slot may still be read
			k.wait(ctx)
		}
		if err := cmpErr(ctx.Err(), d.ready()); err != nil {
			return d.fail("Start", err)
		}
	}
	base := k.m.Base()
	c, i, gone, err := k.m.Start()
	if err != nil {
		return d.fail("Start", err)
	}
	k.begun = began
	if gone {
		return nil // Commit tells why
	}
	p := k.piece(machine.Image(k.rank()))
	description, size := lay(d.regions)
	if err = k.st.begin(p, i, c, 1); err == nil {
		err = k.st.grow(p, i, size)
	}
	if err != nil {
		k.do(k.m.Fail(c, err.Error()))
		return d.fail("Start", err)
	}
	p.slots[i].got = nil // no parts come for it
	room := p.slots[i].room
	k.working++ // so the room stays, also if the world is closed
	k.mu.Unlock()
	pack(room, description, d.regions)
	k.mu.Lock()
	k.working--
	k.wake()
	k.stats.Start, k.stats.Bytes = time.Since(began), size
	lctx, life, turn := k.w.context(), k.life, k.turn()
	var from *slot
	if at, has := k.m.Told(p.name, base); has {
		from = &p.slots[at]
	}
	o := newOutgoing(room[:size], from)
	k.spawn(func() { k.behind(lctx, life, turn, c, done, p, i, o) })
	return nil
}

func cmpErr(a, b error) error {
	if b != nil {
		return b
	}
	return a
}

// Commit waits until the epoch that was started last is whole everywhere. Once it has returned true on one rank, that epoch or a newer one is what
// Restore returns, on all ranks, whatever the policy promises to survive. Without a Start it returns true at once.
//
// If ctx ends first it returns false and no error, and may be called again; so an expired ctx is a test.
//
// Errors: ErrGaveUp, on all ranks, if the epoch could not be completed: the text names the rank and the reason; ErrFailed.
func (d *Description) Commit(ctx context.Context) (done bool, err error) {
	k := d.k
	began := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	lctx, stop := both(ctx, k.w.context())
	defer stop()
	for {
		if k.m == nil {
			return false, d.fail("Commit", errClosed)
		}
		started, complete, gone := k.m.State()
		switch err := d.ready(); {
		case started.Compare(complete) <= 0 && !d.closed:
			k.stats.Commit = time.Since(began)
			return true, nil
		case err != nil:
			return false, d.fail("Commit", err)
		case gone != "":
			return false, d.fail("Commit", fmt.Errorf("epoch %d: %w: %s", started.Seq, ErrGaveUp, gone))
		case ctx.Err() != nil:
			return false, nil
		}
		k.wait(lctx)
	}
}

// both ends when one of two contexts does.
func both(ctx, life context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func() { stop(); cancel(nil) }
}

// State is what a description is doing.
type State struct {
	Epoch   int     // newest that is whole everywhere, as far as this rank has heard; 0: none
	Started int     // newest that was started on this rank
	Busy    bool    // that one is neither complete nor given up
	Running bool    // Restore has returned in this life
	Promise Promise // what may be lost at once
}

// State returns it. It does not wait.
func (d *Description) State() State {
	k := d.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil { // it was removed
		return State{Promise: k.opt.policy().Promise()}
	}
	started, complete, gone := k.m.State()
	return State{
		Epoch: int(complete.Seq), Started: int(started.Seq), Busy: started.Compare(complete) > 0 && gone == "",
		Running: k.m.Running(), Promise: k.opt.policy().Promise(),
	}
}

// Close ends the use of the description by this call of the program's function. What it holds stays with the world: the program
// opens it again in the next life.
func (d *Description) Close() error {
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	d.closed = true
	return nil
}

// Remove closes the description and gives up all that this rank holds of it, with the files of its target. It is called by all ranks, when
// none needs the description any more. Another one may be opened under the same name. A second Remove does nothing.
func (d *Description) Remove() error {
	k := d.k
	k.mu.Lock()
	defer k.mu.Unlock()
	d.closed = true
	if d.removed || k.st == nil {
		return nil
	}
	d.removed = true
	k.idle()
	err := k.st.remove(k.pieces)
	if k.removed.life != d.life {
		k.removed = turn{life: d.life}
	}
	k.removed.number++
	k.m, k.st, k.pieces, k.waiting, k.life = nil, nil, nil, false, 0
	if err != nil {
		return fmt.Errorf("mirror: Remove of %q: %w", k.name, err)
	}
	return nil
}
