package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/system/endian"
	"github.com/gorun-mpi/gorun/internal/system/nofile"
	"github.com/gorun-mpi/gorun/rpi"
)

// defaultRPI is the order of transports if the user names none. Only those that the program has are
// used. Transport rdma must be named: its provider soft is slower than tcp, and a provider that is
// fast on an adapter may be slow on an emulated one.
var defaultRPI = []string{"shm", "tcp"}

// transports are a rank's modules on their way into a job. They are a rank's share of what package wireup
// describes.
type transports struct {
	link   Link
	start  oob.StartConfig
	nodes  []int // by rank
	engine *engine.Engine
	before []rpi.Module // of a process that has come from another incarnation

	order   []string     // by preference
	tried   int          // how many of order
	modules []rpi.Module // open
	fresh   int          // modules from here on were opened in this round
	failed  map[string]string
	denied  []oob.Unreached // in this round
	settled bool
	late    bool       // the head was told of a denial after the job was connected
	waiter  rpi.Waiter // set by settle
}

// newTransports finds the transports that a rank is to open. Those that it had in an earlier
// incarnation will be restarted.
func newTransports(link Link, start oob.StartConfig, e *engine.Engine, before []rpi.Module) (*transports, error) {
	t := &transports{link: link, start: start, nodes: nodesOf(&start), engine: e, before: before, order: start.RPI, failed: map[string]string{}}
	if len(t.order) == 0 {
		for _, name := range defaultRPI {
			if _, ok := rpi.Lookup(name); ok {
				t.order = append(t.order, name)
			}
		}
	}
	for _, name := range t.order {
		if _, ok := rpi.Lookup(name); !ok && t.had(name) == nil {
			return nil, fmt.Errorf("rank %d: -rpi %s: the program has no transport %q, it has %s", start.Rank, strings.Join(t.order, ","), name, strings.Join(rpi.Names(), ", "))
		}
	}
	return t, nil
}

// had returns the module that the rank had, nil if none.
func (t *transports) had(name string) rpi.Module {
	for _, m := range t.before {
		if m.Name() == name {
			return m
		}
	}
	return nil
}

// open opens the next transports and returns the message with their addresses. It begins with the preferred
// one, unless that is known not to serve. If this rank then lacks a peer, the next call opens the rest.
func (t *transports) open() (oob.Msg, error) {
	t.fresh = len(t.modules)
	until := t.tried
	switch {
	case t.start.Size == 1:
	case t.tried == 0 && len(t.order) > 0 && oneNode(t.nodes):
		until = 1
	case t.tried == 0 || t.lacks():
		until = len(t.order)
	}
	addrs := map[string][]byte{}
	for ; t.tried < until; t.tried++ {
		name := t.order[t.tried]
		addr, err := t.openOne(name)
		err = nofile.Explain(err, nofile.OfRank(t.start.Size), "")
		switch {
		case err == nil:
			addrs[name] = addr
		case errors.Is(err, rpi.ErrUnavailable):
			t.failed[name] = strings.TrimPrefix(err.Error(), name+": ")
		default:
			return oob.Msg{}, fmt.Errorf("rank %d: transport %s: %w", t.start.Rank, name, err)
		}
	}
	info := oob.AddressInfo{Modules: addrs, Arch: runtime.GOARCH, BigEndian: endian.Big, Books: true}
	for _, m := range t.modules[t.fresh:] {
		if _, local := m.(rpi.LocalModule); local {
			info.Local = append(info.Local, m.Name())
		}
		if _, asks := m.(rpi.Asker); asks {
			info.Asks = append(info.Asks, m.Name())
		}
	}
	return t.message(oob.Address, info)
}

func oneNode(nodes []int) bool {
	return !slices.ContainsFunc(nodes, func(n int) bool { return n != nodes[0] })
}

func (t *transports) openOne(name string) (addr []byte, err error) {
	env := rpi.Env{
		Rank: t.start.Rank, Size: t.start.Size, Incarnation: t.start.Incarnation, Secret: t.start.Secret,
		Host: t.start.Host, Sink: t.engine.Sink(len(t.modules)), Params: t.start.Params,
		Wide: t.start.Wide, Denied: func(peer int, err error) { t.deny(name, peer, err) }, Suspect: t.suspect,
		Ask: t.ask,
	}
	m := t.had(name)
	if m != nil {
		addr, err = m.Restart(env)
	} else {
		factory, _ := rpi.Lookup(name)
		m = factory()
		addr, err = m.Start(env)
	}
	if err == nil {
		t.modules = append(t.modules, m)
	}
	return addr, err
}

func (t *transports) message(kind oob.Kind, v any) (oob.Msg, error) {
	data, err := json.Marshal(v)
	return oob.Msg{Kind: kind, From: int32(t.start.Rank), To: oob.Head, Incarnation: t.start.Incarnation, Data: data}, err
}

// hear acts on a message of the head. It returns the answer, or done when every rank knows how it reaches every
// other.
func (t *transports) hear(m *oob.Msg) (answer oob.Msg, done bool, err error) {
	switch m.Kind {
	case oob.Peers:
		if err = t.peers(m); err == nil {
			answer, err = t.message(oob.Reach, t.reach())
		}
	case oob.Routes:
		var more bool
		if more, err = t.routes(m); err != nil {
			break
		}
		if !more {
			return answer, true, t.settle()
		}
		answer, err = t.open()
	default:
		err = fmt.Errorf("rank %d: message of kind %d where addresses were expected", t.start.Rank, m.Kind)
	}
	return answer, false, err
}

// peers gives the modules that were opened in this round the addresses of the
// ranks that they may reach, as far as they are told.
func (t *transports) peers(m *oob.Msg) error {
	fill, err := t.told(m)
	if err != nil {
		return fmt.Errorf("rank %d: list of addresses: %w", t.start.Rank, err)
	}
	for _, mod := range t.modules[t.fresh:] {
		addrs := make([][]byte, t.start.Size)
		fill(mod.Name(), addrs)
		for r := range addrs {
			if t.away(mod, r) {
				addrs[r] = nil
			}
		}
		if err := mod.Peers(addrs); err != nil {
			return fmt.Errorf("rank %d: transport %s: %w", t.start.Rank, mod.Name(), err)
		}
	}
	return nil
}

// told returns a function that fills in, by rank, the addresses of a transport in a message.
func (t *transports) told(m *oob.Msg) (fill func(transport string, addrs [][]byte), err error) {
	if m.A == oob.PeersBook {
		book, err := wireup.ParseBook(m.Data, t.start.Size)
		return book.Fill, err
	}
	var all []map[string][]byte // of a head that does not know books
	if err := json.Unmarshal(m.Data, &all); err != nil || len(all) != t.start.Size {
		return nil, fmt.Errorf("%d of %d, %w", len(all), t.start.Size, err)
	}
	return func(transport string, addrs [][]byte) {
		for r := range all {
			addrs[r] = all[r][transport]
		}
	}, nil
}

// ask asks the head where a peer is.
func (t *transports) ask(peer int) {
	_ = t.link.Send(oob.Msg{Kind: oob.Lookup, From: int32(t.start.Rank), To: oob.Head, Incarnation: t.start.Incarnation, A: uint64(peer)}) // as in deny
}

// located passes on the head's answer.
func located(modules []rpi.Module, m *oob.Msg, size int) error {
	book, err := wireup.ParseBook(m.Data, size)
	if err != nil {
		return fmt.Errorf("the address of rank %d: %w", m.A, err)
	}
	for _, mod := range modules {
		if asker, ok := mod.(rpi.Asker); ok {
			if addr := book.Of(mod.Name(), int(m.A)); len(addr) > 0 { // thus of a rank that there is
				asker.Located(int(m.A), addr)
			}
		}
	}
	return nil
}

// away reports whether a peer is on a node that a transport does not reach.
func (t *transports) away(m rpi.Module, peer int) bool {
	_, local := m.(rpi.LocalModule)
	return local && t.nodes[peer] != t.nodes[t.start.Rank]
}

// reach tells which peers the modules of this round reach.
func (t *transports) reach() oob.ReachInfo {
	info := oob.ReachInfo{Order: t.order, Failed: t.failed, Left: t.tried < len(t.order), Denied: t.denied}
	t.denied = nil
	for _, m := range t.modules[t.fresh:] {
		info.Opened = append(info.Opened, m.Name())
		if d, ok := m.(rpi.Describer); ok {
			if info.About == nil {
				info.About = map[string]string{}
			}
			info.About[m.Name()] = d.About()
		}
		reasons := map[string][]int{}
		for peer := range t.start.Size {
			if peer != t.start.Rank && !m.Reaches(peer) {
				why := t.whyNot(m, peer)
				reasons[why] = append(reasons[why], peer)
			}
		}
		for _, why := range slices.Sorted(maps.Keys(reasons)) {
			info.Not = append(info.Not, oob.Unreached{Transport: m.Name(), Why: why, Ranks: oob.RunsOf(reasons[why])})
		}
	}
	return info
}

func (t *transports) whyNot(m rpi.Module, peer int) string {
	if t.away(m, peer) {
		return wireup.OtherNode
	}
	if local, ok := m.(rpi.LocalModule); ok {
		if err := nofile.Explain(local.Unreached(peer), nofile.OfRank(t.start.Size), ""); err != nil {
			return strings.TrimPrefix(err.Error(), m.Name()+": ")
		}
	}
	return "one of them does not have it open"
}

// deny notes a parameter that a transport cannot heed with a peer. After the job is connected only the first
// such peer is reported: as a rule all have the same cause.
func (t *transports) deny(name string, peer int, err error) {
	one := []oob.Unreached{{Transport: name, Why: err.Error(), Ranks: [][2]int{{peer, peer}}}}
	switch {
	case !t.settled:
		t.denied = append(t.denied, one...)
	case !t.late:
		t.late = true
		if m, err := t.message(oob.Reach, oob.ReachInfo{Denied: one}); err == nil {
			_ = t.link.Send(m) // if the head is gone this rank ends, too
		}
	}
}

// suspect tells the head that the network to a peer seems to be cut, or no longer does.
func (t *transports) suspect(peer int, silent time.Duration) {
	m := oob.Msg{Kind: oob.Suspect, From: int32(t.start.Rank), To: oob.Head, Incarnation: t.start.Incarnation, A: uint64(peer), B: uint64(silent.Milliseconds())}
	_ = t.link.Send(m) // as in deny
}

// routes gives up the transports that peers cannot use.
func (t *transports) routes(m *oob.Msg) (more bool, err error) {
	var info oob.RoutesInfo
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return false, fmt.Errorf("rank %d: routes: %w", t.start.Rank, err)
	}
	for _, u := range info.Forgo[t.start.Rank] {
		i := slices.IndexFunc(t.modules, func(m rpi.Module) bool { return m.Name() == u.Transport })
		if i < 0 {
			continue
		}
		local, ok := t.modules[i].(rpi.LocalModule)
		if !ok {
			return false, fmt.Errorf("rank %d: transport %s reaches ranks that do not reach it", t.start.Rank, u.Transport)
		}
		for _, run := range u.Ranks {
			for peer := run[0]; peer <= run[1]; peer++ {
				local.Forgo(peer)
			}
		}
	}
	return info.More, nil
}

// carrier returns the index of the module that carries the frames to a peer, or -1.
func (t *transports) carrier(peer int) int {
	return slices.IndexFunc(t.modules, func(m rpi.Module) bool { return m.Reaches(peer) })
}

// lacks reports whether there is a peer that no module reaches.
func (t *transports) lacks() bool {
	for peer := range t.start.Size {
		if peer != t.start.Rank && t.carrier(peer) < 0 {
			return true
		}
	}
	return false
}

// settle closes the modules that carry nothing, with those of a former life. It gives the rest to the engine.
func (t *transports) settle() error {
	carries := make([]bool, len(t.modules))
	for peer := range t.start.Size {
		if peer == t.start.Rank {
			continue
		}
		i := t.carrier(peer)
		if i < 0 { // all are kept: there may be another incarnation to try
			return fmt.Errorf("%w: rank %d: no transport reaches it", engine.ErrPeerFailed, peer)
		}
		carries[i] = true
	}
	kept := []rpi.Module{} // not nil: nil tells the engine that nothing changes
	for i, m := range t.modules {
		if carries[i] {
			kept = append(kept, m)
		} else {
			_ = m.Close() // it has carried nothing
		}
	}
	for _, m := range t.before {
		if !slices.Contains(t.modules, m) {
			_ = m.Close() // its descriptors lead nowhere
		}
	}
	t.modules, t.before, t.settled = kept, nil, true
	t.waiter = newWaiter(t.modules)
	return t.engine.Restarted(t.modules, t.waiter)
}

// all returns the modules that are there, open or not, for the next incarnation: this one was given up.
func (t *transports) all() []rpi.Module {
	all := slices.Clone(t.modules)
	for _, m := range t.before {
		if !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

func (t *transports) close() error {
	var errs []error
	for _, m := range t.modules {
		errs = append(errs, m.Close())
	}
	t.modules = nil
	return errors.Join(errs...)
}
