package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/rpi"
)

// transports are a rank's open modules and the engine over them.
type transports struct {
	modules []rpi.Module
	addrs   map[string][]byte
	engine  *rpi.Engine
	waiter  rpi.Waiter
}

// openTransports opens those that are asked for, under a new engine.
func openTransports(start oob.StartConfig, failed func(peer int, err error)) (*transports, error) {
	t, err := pickTransports(start, nil)
	if err != nil {
		return nil, err
	}
	t.engine = rpi.New(rpi.Config{Rank: start.Rank, Size: start.Size, Modules: t.modules, Waiter: t.waiter, Failed: failed})
	if err := t.open(start, nil); err != nil {
		return nil, err
	}
	return t, nil
}

// reopenTransports opens them under an engine that has been restored with its
// process: those that it had before are restarted, others take the place of
// those that are not asked for any more.
func reopenTransports(start oob.StartConfig, e *rpi.Engine, before []rpi.Module) (*transports, error) {
	t, err := pickTransports(start, before)
	if err != nil {
		return nil, err
	}
	t.engine = e
	if err := t.open(start, before); err != nil {
		return nil, err
	}
	for _, m := range before {
		if !slices.Contains(t.modules, m) {
			_ = m.Close() // its descriptors lead nowhere
		}
	}
	return t, nil
}

// pickTransports finds the modules by name, first among those that are there.
func pickTransports(start oob.StartConfig, before []rpi.Module) (*transports, error) {
	t := &transports{addrs: map[string][]byte{}}
	names := start.RPI
	if len(names) == 0 {
		names = DefaultRPI
	}
	for _, name := range names {
		m := named(before, name)
		if m == nil {
			factory, ok := rpi.Lookup(name)
			if !ok {
				return nil, fmt.Errorf("rank %d: -rpi %s: the program has no transport %q, it has %s", start.Rank, strings.Join(names, ","), name, strings.Join(rpi.Names(), ", "))
			}
			m = factory()
		}
		if w, ok := m.(rpi.Waiter); ok && t.waiter == nil {
			t.waiter = w
		}
		t.modules = append(t.modules, m)
	}
	if t.waiter == nil {
		t.waiter = rpi.NewChanWaiter()
	}
	return t, nil
}

func named(modules []rpi.Module, name string) rpi.Module {
	for _, m := range modules {
		if m.Name() == name {
			return m
		}
	}
	return nil
}

func (t *transports) open(start oob.StartConfig, before []rpi.Module) error {
	for i, m := range t.modules {
		begin := m.Start
		if slices.Contains(before, m) {
			begin = m.Restart
		}
		addr, err := begin(rpi.Env{
			Rank: start.Rank, Size: start.Size, Incarnation: start.Incarnation, Secret: start.Secret,
			Host: start.Host, Sink: t.engine.Sink(i), Params: start.Params,
		})
		if err != nil {
			t.modules = t.modules[:i]
			return errors.Join(fmt.Errorf("rank %d: transport %s: %w", start.Rank, m.Name(), err), t.close())
		}
		t.addrs[m.Name()] = addr
	}
	return nil
}

// connect publishes this rank's addresses and learns those of the others.
func (t *transports) connect(conn *oob.Conn, start oob.StartConfig) error {
	m, err := t.address(start)
	if err == nil {
		err = conn.Send(m)
	}
	if err != nil {
		return err
	}
	if m, err = conn.Recv(); err != nil {
		return fmt.Errorf("rank %d: waiting for the other ranks' addresses: %w", start.Rank, err)
	}
	return t.peers(&m, start)
}

// address is the message that publishes this rank's addresses.
func (t *transports) address(start oob.StartConfig) (oob.Msg, error) {
	data, err := json.Marshal(oob.AddressInfo{Modules: t.addrs, Arch: runtime.GOARCH, BigEndian: BigEndian()})
	return oob.Msg{Kind: oob.Address, From: int32(start.Rank), To: oob.Head, Incarnation: start.Incarnation, Data: data}, err
}

// peers gives the modules the addresses of all ranks.
func (t *transports) peers(m *oob.Msg, start oob.StartConfig) error {
	var all []map[string][]byte
	if m.Kind != oob.Peers {
		return fmt.Errorf("rank %d: message of kind %d where addresses were expected", start.Rank, m.Kind)
	}
	if err := json.Unmarshal(m.Data, &all); err != nil || len(all) != start.Size {
		return fmt.Errorf("rank %d: list of addresses: %d of %d, %w", start.Rank, len(all), start.Size, err)
	}
	for _, mod := range t.modules {
		addrs := make([][]byte, start.Size)
		for r := range all {
			addrs[r] = all[r][mod.Name()]
		}
		if err := mod.Peers(addrs); err != nil {
			return fmt.Errorf("rank %d: transport %s: %w", start.Rank, mod.Name(), err)
		}
	}
	return nil
}

func (t *transports) close() error {
	var errs []error
	for _, m := range t.modules {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
