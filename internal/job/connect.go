package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/rpi"
)

// DefaultRPI is the order of transports where none is asked for.
var DefaultRPI = []string{"tcp"}

// Connect makes this process a rank: of the job whose agent started it, or,
// without one, of a job of one rank.
//
// Start-up, all over the inherited socket:
//
//	rank                      agent / head
//	 Hello  ----------------->            version range, byte order
//	        <----------------- Hello
//	        <----------------- Start      rank, size, secret, transports
//	 Address ---------------->            where this rank is reached
//	        <----------------- Peers      everybody's Address
//	 Up     ----------------->
//
// The job is from then on the process's own, see Default.
func Connect() (*Job, error) {
	conn, err := oob.Inherited()
	if err != nil {
		return nil, err
	}
	j := single
	if conn != nil {
		j = func() (*Job, error) { return join(conn) }
	}
	job, err := j()
	if err != nil {
		return nil, err
	}
	own.Store(job)
	return job, nil
}

var own atomic.Pointer[Job]

// Default returns the process's own job, nil before Connect.
func Default() *Job { return own.Load() }

func single() (*Job, error) {
	w := rpi.NewChanWaiter()
	e := rpi.New(rpi.Config{Rank: 0, Size: 1, Waiter: w})
	e.Start()
	return New(Config{Start: oob.StartConfig{Size: 1}, Engine: e, Waiter: w}), nil
}

func join(conn *oob.Conn) (*Job, error) {
	self := oob.HelloInfo{Role: "rank", PID: os.Getpid(), Arch: runtime.GOARCH, BigEndian: BigEndian()}
	if _, err := conn.Greet(self, -1); err != nil {
		return nil, err
	}
	start, err := recvStart(conn)
	if err != nil {
		return nil, err
	}
	j, err := enter(conn, start)
	if err != nil {
		// The head shows the reason; without this it would only see an exit.
		m := oob.Msg{Kind: oob.Failure, From: int32(start.Rank), To: oob.Head, Incarnation: start.Incarnation, Data: []byte(err.Error())}
		return nil, errors.Join(err, conn.Send(m))
	}
	return j, nil
}

func enter(conn *oob.Conn, start oob.StartConfig) (*Job, error) {
	if start.Image != "" && NewBackend == nil {
		return nil, fmt.Errorf("rank %d cannot be restarted from %s: %w", start.Rank, start.Image, ErrNoBackend)
	}
	t, err := openTransports(start, func(_ int, err error) {
		// Before the program can react: should it exit now, the head knows that
		// this is a consequence. If the head is gone as well, so is this rank.
		_ = conn.Send(oob.Msg{Kind: oob.Failure, From: int32(start.Rank), To: oob.Head, Incarnation: start.Incarnation, B: 1, Data: []byte(err.Error())})
	})
	if err != nil {
		return nil, err
	}
	if err := t.connect(conn, start); err != nil {
		return nil, errors.Join(err, t.close())
	}
	t.engine.Start()
	up := oob.Msg{Kind: oob.Up, From: int32(start.Rank), To: oob.Head, Incarnation: start.Incarnation}
	if err := conn.Send(up); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return New(Config{Start: start, Engine: t.engine, Waiter: t.waiter, Close: t.close, Link: conn}), nil
}

func recvStart(conn *oob.Conn) (start oob.StartConfig, err error) {
	m, err := conn.Recv()
	if err != nil {
		return start, fmt.Errorf("waiting for the launcher: %w", err)
	}
	if m.Kind != oob.Start {
		return start, fmt.Errorf("waiting for the launcher: message of kind %d before the start", m.Kind)
	}
	if err = json.Unmarshal(m.Data, &start); err != nil {
		return start, fmt.Errorf("start configuration: %w", err)
	}
	if start.Rank < 0 || start.Rank >= start.Size {
		return start, fmt.Errorf("start configuration: rank %d of %d", start.Rank, start.Size)
	}
	return start, nil
}

// transports are a rank's open modules and the engine over them.
type transports struct {
	names   []string
	modules []rpi.Module
	addrs   map[string][]byte
	engine  *rpi.Engine
	waiter  rpi.Waiter
}

func openTransports(start oob.StartConfig, failed func(peer int, err error)) (*transports, error) {
	t := &transports{names: start.RPI, addrs: map[string][]byte{}}
	if len(t.names) == 0 {
		t.names = DefaultRPI
	}
	for _, name := range t.names {
		factory, ok := rpi.Lookup(name)
		if !ok {
			return nil, fmt.Errorf("rank %d: -rpi %s: the program has no transport %q, it has %s", start.Rank, strings.Join(t.names, ","), name, strings.Join(rpi.Names(), ", "))
		}
		m := factory()
		if w, ok := m.(rpi.Waiter); ok && t.waiter == nil {
			t.waiter = w
		}
		t.modules = append(t.modules, m)
	}
	if t.waiter == nil {
		t.waiter = rpi.NewChanWaiter()
	}
	t.engine = rpi.New(rpi.Config{Rank: start.Rank, Size: start.Size, Modules: t.modules, Waiter: t.waiter, Failed: failed})
	for i, m := range t.modules {
		addr, err := m.Start(rpi.Env{
			Rank: start.Rank, Size: start.Size, Incarnation: start.Incarnation, Secret: start.Secret,
			Host: start.Host, Sink: t.engine.Sink(i), Params: start.Params,
		})
		if err != nil {
			t.modules = t.modules[:i]
			return nil, errors.Join(fmt.Errorf("rank %d: transport %s: %w", start.Rank, t.names[i], err), t.close())
		}
		t.addrs[t.names[i]] = addr
	}
	return t, nil
}

// connect publishes this rank's addresses and learns those of the others.
func (t *transports) connect(conn *oob.Conn, start oob.StartConfig) error {
	data, err := json.Marshal(oob.AddressInfo{Modules: t.addrs, Arch: runtime.GOARCH, BigEndian: BigEndian()})
	if err != nil {
		return err
	}
	m := oob.Msg{Kind: oob.Address, From: int32(start.Rank), To: oob.Head, Incarnation: start.Incarnation, Data: data}
	if err := conn.Send(m); err != nil {
		return err
	}
	if m, err = conn.Recv(); err != nil {
		return fmt.Errorf("rank %d: waiting for the other ranks' addresses: %w", start.Rank, err)
	}
	var all []map[string][]byte
	if m.Kind != oob.Peers {
		return fmt.Errorf("rank %d: message of kind %d where addresses were expected", start.Rank, m.Kind)
	}
	if err := json.Unmarshal(m.Data, &all); err != nil || len(all) != start.Size {
		return fmt.Errorf("rank %d: list of addresses: %d of %d, %w", start.Rank, len(all), start.Size, err)
	}
	for i, mod := range t.modules {
		addrs := make([][]byte, start.Size)
		for r := range all {
			addrs[r] = all[r][t.names[i]]
		}
		if err := mod.Peers(addrs); err != nil {
			return fmt.Errorf("rank %d: transport %s: %w", start.Rank, t.names[i], err)
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

// BigEndian reports the byte order of this machine.
func BigEndian() bool {
	x := uint16(1)
	return *(*byte)(unsafe.Pointer(&x)) == 0
}
