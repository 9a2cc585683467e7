package machine

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/storage/protect"
	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
)

// The model: ranks on nodes of their own, messages that arrive at any time, in order for each pair of ranks, and nodes that are lost at any moment,
// as many at once as the policy promises. All that decides is the shipped Machine; the model only moves what it asks for. After
// each recovery it compares what the ranks got with what they had written.

var seed = flag.Uint64("model.seed", 0, "replay one schedule of the model, and print it")

// process is a rank's process.
type process struct {
	m       *Machine
	entered bool                    // in the present life of the world
	slots   map[Name]*[2]*content   // what is in the slots
	todo    []func(p *process) bool // work beside: what a goroutine of the driver does
}

// content is the bytes of a slot: who wrote what into it, by part.
type content struct {
	cut   twoslots.Cut
	parts map[int]data
}

// data is an image: a window that each epoch changes, and one that every other does. As part of what travels an empty window is that of the base.
type data [2]string

// image is what a rank has at an epoch.
func image(rank int, c twoslots.Cut) data {
	return data{fmt.Sprintf("%d@%v", rank, c), fmt.Sprintf("%d#%d", rank, c.Seq/2)}
}

// since is what has changed since a base.
func (d data) since(base data) data {
	for i := range d {
		if d[i] == base[i] {
			d[i] = ""
		}
	}
	return d
}

// on is d on a base.
func (d data) on(base data) data {
	for i := range d {
		if d[i] == "" {
			d[i] = base[i]
		}
	}
	return d
}

// packet is what travels: a message, or a part of a piece.
type packet struct {
	msg  *Msg
	name Name
	cut  twoslots.Cut
	done twoslots.Cut
	base twoslots.Cut // zero: all windows are there
	part int
	data data
}

type model struct {
	rng       *rand.Rand
	ranks     int
	policy    protect.Policy
	mutant    mutant
	world     int
	procs     []*process
	net       [][][]packet // by sender and receiver
	committed twoslots.Cut // the newest that anybody has heard to be complete
	deaths    int          // since everybody ran
	resumed   map[int]twoslots.Cut
	lives     int
	givesUp   bool // parts are damaged on their way, now and then
	log       []string
	err       error
}

func (w *model) say(format string, a ...any) { w.log = append(w.log, fmt.Sprintf(format, a...)) }

func (w *model) fail(format string, a ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, a...)
		w.say("WRONG: %v", w.err)
	}
}

func newModel(seed uint64, ranks int, policy protect.Policy, mu mutant) *model {
	w := &model{rng: rand.New(rand.NewPCG(seed, 1)), ranks: ranks, policy: policy, mutant: mu}
	for range ranks {
		w.procs = append(w.procs, w.fresh())
	}
	w.live()
	return w
}

func (w *model) fresh() *process {
	p := &process{m: New(0), slots: map[Name]*[2]*content{}}
	p.m.mutant = w.mutant
	return p
}

// live begins a life of the world: what was under way is gone.
func (w *model) live() {
	w.world++
	w.net = make([][][]packet, w.ranks)
	for i := range w.net {
		w.net[i] = make([][]packet, w.ranks)
	}
	for _, p := range w.procs {
		p.entered, p.todo = false, nil
	}
	w.resumed = map[int]twoslots.Cut{}
}

func (w *model) plan() *Plan {
	var p protect.Placement
	for r := range w.ranks {
		p.Nodes = append(p.Nodes, protect.Node{Name: fmt.Sprint("n", r)})
		p.Of = append(p.Of, r)
	}
	plan, err := NewPlan(p, w.policy)
	if err != nil {
		w.fail("%v", err)
	}
	return plan
}

// step does one thing that can happen.
func (w *model) step(mayDie bool) bool {
	type move func()
	var moves []move
	for r, p := range w.procs {
		if !p.entered {
			moves = append(moves, func() {
				w.say("rank %d enters life %d of the world", r, w.world)
				p.entered = true
				w.do(r, p.m.Enter(r, w.plan(), "ring", false))
			})
			continue
		}
		for i, f := range p.todo {
			moves = append(moves, func() {
				p.todo = slices.Delete(p.todo, i, i+1)
				f(p)
			})
		}
		if started, done, gone := p.m.State(); p.m.Running() && (started == done || gone != "") && started.Seq < 12 {
			moves = append(moves, func() { w.start(r) })
		}
		for from := range w.ranks {
			if q := &w.net[from][r]; len(*q) > 0 {
				moves = append(moves, func() {
					k := (*q)[0]
					*q = (*q)[1:]
					w.arrive(from, r, k)
				})
			}
		}
	}
	if mayDie && w.deaths < w.policy.Promise().Nodes && w.lives < 4 && w.rng.IntN(40) == 0 {
		w.lives++
		for n := 1 + w.rng.IntN(w.policy.Promise().Nodes-w.deaths); n > 0; n-- {
			r := w.rng.IntN(w.ranks)
			w.say("the node of rank %d is lost", r)
			w.procs[r] = w.fresh()
			w.deaths++
		}
		w.live()
		return true
	}
	if len(moves) == 0 {
		return false
	}
	moves[w.rng.IntN(len(moves))]()
	return true
}

func (w *model) start(r int) {
	p := w.procs[r]
	_, done, _ := p.m.State()
	base := p.m.Base()
	c, slot, gone, err := p.m.Start()
	if err != nil {
		w.fail("rank %d: Start: %v", r, err)
		return
	}
	w.say("rank %d starts %v, told by %v; gone: %v", r, c, base, gone)
	if gone {
		return
	}
	whole := image(r, c)
	travels := whole
	if base != (twoslots.Cut{}) {
		travels = whole.since(p.get(Image(r), base)[0])
	}
	p.put(Image(r), slot, c, true, 0, whole)
	p.todo = append(p.todo, func(p *process) bool {
		w.add(r, Image(r), c, 0)
		return true
	})
	for _, t := range w.plan().Targets(r) {
		w.net[r][t.To] = append(w.net[r][t.To], packet{name: t.Name, cut: c, done: done, base: base, part: t.Part, data: travels})
	}
}

func (p *process) put(n Name, slot int, c twoslots.Cut, first bool, part int, d data) {
	if p.slots[n] == nil {
		p.slots[n] = new([2]*content)
	}
	if first || p.slots[n][slot] == nil {
		p.slots[n][slot] = &content{cut: c, parts: map[int]data{}}
	}
	p.slots[n][slot].parts[part] = d
}

// get is what a process has of an epoch, nil if it does not have it whole.
func (p *process) get(n Name, c twoslots.Cut) map[int]data {
	if i, whole := p.m.Told(n, c); whole && p.slots[n] != nil && p.slots[n][i] != nil {
		return p.slots[n][i].parts
	}
	return nil
}

func (w *model) add(r int, n Name, c twoslots.Cut, part int) {
	actions, err := w.procs[r].m.Add(n, c, part)
	if err == nil {
		w.do(r, actions)
	}
}

func (w *model) arrive(from, r int, k packet) {
	p := w.procs[r]
	if k.msg != nil {
		w.say("%d -> %d: %v %v", from, r, k.msg.Kind, k.msg.Cut)
		if actions, err := p.m.Receive(from, *k.msg); err == nil {
			w.do(r, actions)
		} else if !errors.Is(err, errStray) {
			w.fail("%v", err)
		}
		return
	}
	slot, first, err := p.m.Part(k.name, k.cut, k.done)
	w.say("%d -> %d: part %d of %v, %v: slot %d %v", from, r, k.part, k.name, k.cut, slot, err)
	if err != nil {
		return
	}
	if w.givesUp && w.rng.IntN(60) == 0 {
		w.do(r, p.m.Fail(k.cut, "it was damaged on its way"))
		return
	}
	d := k.data
	if k.base != (twoslots.Cut{}) {
		base := p.get(k.name, k.base)
		if base == nil {
			w.fail("rank %d does not have %v of %v, by which %v is told", r, k.name, k.base, k.cut)
			return
		}
		d = d.on(base[k.part])
	}
	p.put(k.name, slot, k.cut, first, k.part, d)
	p.todo = append(p.todo, func(*process) bool { w.add(r, k.name, k.cut, k.part); return true })
}

// do carries out what a machine wants.
func (w *model) do(r int, actions []Action) {
	p := w.procs[r]
	for _, a := range actions {
		switch a := a.(type) {
		case Send:
			w.net[r][a.To] = append(w.net[r][a.To], packet{msg: &a.Msg})
		case Look:
			p.todo = append(p.todo, func(p *process) bool { w.do(r, p.m.Looked(nil)); return true })
		case Make:
			p.todo = append(p.todo, func(p *process) bool { w.make(r, a); return true })
		case Resume:
			w.resume(r, a)
		case Completed:
			if a.Cut.Compare(w.committed) > 0 {
				w.committed = a.Cut
			}
		}
	}
}

// make makes pieces of what others have.
func (w *model) make(r int, a Make) {
	p := w.procs[r]
	for _, n := range a.Names {
		parts, members := map[int]data{}, n.Members()
		for i, rank := range members {
			if had := w.find(Image(rank), a); had != nil {
				parts[i] = had[0]
			} else if parts[i] = w.rebuild(rank, a); parts[i] == (data{}) {
				w.fail("rank %d cannot make %v of %v", r, n, a.Cut)
				return
			}
		}
		slot, err := p.m.Room(n)
		if err != nil {
			w.fail("rank %d has no room for %v: %v", r, n, err)
			return
		}
		for i, d := range parts {
			p.put(n, slot, a.Cut, i == 0 && len(parts) == 1, i, d)
			p.slots[n][slot].cut = a.Cut
		}
		w.say("rank %d makes %v of %v: %v", r, n, a.Cut, parts)
	}
	actions, err := p.m.MadeAll(a)
	if err != nil {
		w.fail("rank %d: %v", r, err)
	}
	w.do(r, actions)
}

func (w *model) find(n Name, a Make) map[int]data {
	for _, at := range a.Where {
		if at.Name == n {
			if got := w.procs[at.Rank].get(n, a.Cut); got != nil {
				return got
			}
		}
	}
	return nil
}

// rebuild computes an image of as many pieces of its group as that has images.
func (w *model) rebuild(rank int, a Make) data {
	for _, at := range a.Where {
		members := at.Name.Members()
		if at.Name.Parity == 0 || !slices.Contains(members, rank) {
			continue
		}
		have, parity := 0, map[int]data(nil)
		for _, r := range members {
			if w.find(Image(r), a) != nil {
				have++
			}
		}
		for k := 1; k <= 4; k++ {
			if got := w.find(Name{at.Name.Of, k}, a); got != nil {
				have++
				parity = got
			}
		}
		if have >= len(members) && len(parity) == len(members) {
			return parity[slices.Index(members, rank)]
		}
	}
	return data{}
}

// resume checks what a rank goes on from.
func (w *model) resume(r int, a Resume) {
	w.say("rank %d goes on from %v", r, a.Cut)
	w.deaths = 0
	w.resumed[r] = a.Cut
	for other, c := range w.resumed {
		if c != a.Cut {
			w.fail("rank %d goes on from %v, and rank %d from %v", r, a.Cut, other, c)
		}
	}
	if a.Cut.Compare(w.committed) < 0 {
		w.fail("rank %d goes on from %v, and %v was committed", r, a.Cut, w.committed)
	}
	if a.Lost != (twoslots.Cut{}) {
		w.fail("rank %d is told that %v is lost", r, a.Lost)
	}
	if a.Cut == (twoslots.Cut{}) {
		return
	}
	if got, want := w.procs[r].get(Image(r), a.Cut)[0], image(r, a.Cut); got != want {
		w.fail("rank %d got %q for %q", r, got, want)
	}
}

// run is a schedule; it ends well if nothing is left to do with everybody running.
func (w *model) run() error {
	for i := 0; w.err == nil && w.step(i < 700); i++ {
		if i > 20000 {
			w.fail("it does not come to an end")
		}
	}
	for r, p := range w.procs {
		if started, done, gone := p.m.State(); w.err == nil && (!p.m.Running() || started != done && gone == "") {
			w.fail("rank %d stands: started %v, done %v", r, started, done)
		}
	}
	return w.err
}

var layouts = []struct {
	ranks  int
	policy protect.Policy
}{
	{2, protect.Ring(1)}, {3, protect.Ring(1)}, {4, protect.Ring(2)}, {4, protect.Pairs{}},
	{3, protect.Code{Data: 2, Parity: 1}}, {4, protect.Code{Data: 3, Parity: 1}}, {5, protect.Code{Data: 2, Parity: 2}},
}

// Nodes are lost in every step of everything, and come back with what everybody had at one epoch, none older than what
// was announced.
func TestModel(t *testing.T) {
	lives, n := 0, 60
	if testing.Short() {
		n = 20
	}
	for i, l := range layouts {
		for s := range uint64(n) {
			s += uint64(i)*1_000_000 + 1
			if *seed != 0 && *seed != s {
				continue
			}
			w := newModel(s, l.ranks, l.policy, sound)
			w.givesUp = s%3 == 0
			err := w.run()
			lives += w.lives
			if err != nil || *seed != 0 {
				t.Logf("%s", strings.Join(w.log, "\n"))
				t.Fatalf("%d ranks, %v: %v (-model.seed=%d)", l.ranks, l.policy, err, s)
			}
		}
	}
	if *seed == 0 && lives < n {
		t.Errorf("only %d losses", lives)
	}
}

// Each rule is needed: the model sees when it is broken.
func TestMutants(t *testing.T) {
	for mu, name := range map[mutant]string{
		announcesEarly: "announced before all had it", takesNewest: "the newest that anybody has", notRolledBack: "a survivor not rolled back",
		staleLife: "a life that is not told", countsUnderWay: "a newer one that was under way", slotTooEarly: "a slot given up for what is only whole here",
		olderBase: "an epoch told by another one than the newest complete",
	} {
		caught := 0
		for s := range uint64(3000) {
			l := layouts[s%uint64(len(layouts))]
			if newModel(s+1, l.ranks, l.policy, mu).run() != nil {
				caught = int(s) + 1
				break
			}
		}
		if caught == 0 {
			t.Errorf("%s: not caught", name)
		}
		t.Logf("%s: caught after %d schedules", name, caught)
	}
}
