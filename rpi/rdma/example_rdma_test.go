package rdma_test

import (
	"fmt"
	"log"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma"
	"github.com/gorun-mpi/gorun/rpi/rdma/soft"
)

// env is what a launcher tells the module of a rank.
func env(rank int, s rpi.Sink) rpi.Env {
	return rpi.Env{
		Rank: rank, Size: 2, Incarnation: 1, Sink: s,
		Secret: []byte("known to the ranks of this job"),
		Params: map[string]string{"rdma.eager": "4096"},
	}
}

// twoRanks connects two engines of this process over the provider in software.
func twoRanks() (a, b *engine.Engine) {
	var engines [2]*engine.Engine
	var modules [2]*rdma.Module
	addrs := make([][]byte, 2)
	for rank := range engines {
		modules[rank] = rdma.New()
		engines[rank] = engine.New(engine.Config{Rank: rank, Size: 2, Modules: []rpi.Module{modules[rank]}})
		var err error
		if addrs[rank], err = modules[rank].Start(env(rank, engines[rank].Sink(0))); err != nil {
			log.Fatal(err)
		}
	}
	for rank, e := range engines {
		if err := modules[rank].Peers(addrs); err != nil {
			log.Fatal(err)
		}
		e.Start()
	}
	return engines[0], engines[1]
}

// Without an adapter the provider soft is used; the connection is made by the first message.
func ExampleNew() {
	a, b := twoRanks()
	defer a.Close()
	defer b.Close()

	sent := make(chan error)
	go func() { sent <- a.Send(1, 1, 0, nil, []byte("over the wire"), engine.Standard, nil) }()
	p := make([]byte, 32)
	st, err := b.Recv(0, 1, 0, nil, p, nil)
	fmt.Printf("%s %v %v\n", p[:st.Bytes], err, <-sent)
	// Output: over the wire <nil> <nil>
}

func ExampleParameters() {
	for _, p := range rdma.Parameters()[2:3] {
		fmt.Printf("%s=%s: %s\n", p.Name, p.Default, p.Doc)
	}
	// Output:
	// rdma.depth=16: frames that may be under way to a peer, number; each takes a slot on both sides
}

// A misspelt parameter is an error.
func ExampleCheckParams() {
	fmt.Println(rdma.CheckParams(map[string]string{"rdma.eager": "4096", "other.eager": "x"}))
	fmt.Println(rdma.CheckParams(map[string]string{"rdma.eager": "many"}) != nil)
	// Output:
	// <nil>
	// true
}

func ExampleModule_Start() {
	m := rdma.New()
	e := env(0, nil)
	e.Params = map[string]string{"rdma.eagre": "4096"}
	_, err := m.Start(e)
	fmt.Println(err)
	// Output: rdma: unknown parameter rdma.eagre
}

func ExampleModule_EagerLimit() {
	m := rdma.New()
	if _, err := m.Start(env(0, nil)); err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println(m.Name(), m.EagerLimit())
	// Output: rdma 4096
}

func ExampleModule_Name()  { ExampleModule_EagerLimit() }
func ExampleModule_Close() { ExampleModule_EagerLimit() }

// A rank that runs another transport has no address.
func ExampleModule_Reaches() {
	m := rdma.New()
	addr, err := m.Start(env(0, nil))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	m.Peers([][]byte{addr, nil})
	fmt.Println(m.Reaches(1))
	// Output: false
}

func ExampleModule_Peers() { ExampleModule_Reaches() }

// One goroutine sleeps for all connections; any other may wake it.
func ExampleModule_Wait() {
	m := rdma.New()
	if _, err := m.Start(env(0, nil)); err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	m.Yield() // peers are processes: nothing to do
	for !m.Arm() {
		m.Poll() // something came meanwhile
	}
	go m.Wake()
	m.Wait(-1)
	fmt.Println("awake")
	// Output: awake
}

func ExampleModule_Wake()  { ExampleModule_Wait() }
func ExampleModule_Arm()   { ExampleModule_Wait() }
func ExampleModule_Yield() { ExampleModule_Wait() }

// A process that came back from its image opens a device anew.
func ExampleModule_Restart() {
	m := rdma.New()
	if _, err := m.Start(env(0, nil)); err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	addr, err := m.Restart(env(0, nil))
	fmt.Println(len(addr) > 0, err)
	// Output: true <nil>
}

// Frames as an engine hands them over: until the peer has accepted the
// connection nothing is taken.
func ExampleModule_Send() {
	var ends [2]*rdma.Module
	var sinks [2]sink
	addrs := make([][]byte, 2)
	for rank := range ends {
		ends[rank] = rdma.New()
		defer ends[rank].Close()
		var err error
		if addrs[rank], err = ends[rank].Start(env(rank, &sinks[rank])); err != nil {
			log.Fatal(err)
		}
	}
	for _, m := range ends {
		m.Peers(addrs)
	}
	a, b := ends[0], ends[1]

	h := rpi.Header{Kind: rpi.Eager, Len: 5}
	fmt.Println(a.Send(1, &h, []byte("hello"), 0, false) == rpi.Full)
	for !sinks[0].writable {
		a.Poll()
		b.Poll()
	}
	fmt.Println(a.Send(1, &h, []byte("hello"), 0, false) == rpi.Taken)
	for !a.Flush() || sinks[1].got == "" {
		b.Poll()
	}
	fmt.Println(sinks[1].got)

	a.Quiesce() // gates close: both make progress until nothing is on its way
	b.Quiesce()
	for !a.Quiet() || !b.Quiet() {
		a.Poll()
		b.Poll()
	}
	a.Continue()
	b.Continue()
	// Output:
	// true
	// true
	// hello
}

// Modules over a Fabric need no network: the faults of this one are those of bad cables.
func ExampleOver() {
	fabric := soft.NewFabric(1, soft.Faults{Lost: 20, Overtaken: 20})
	m := rdma.Over(fabric)
	if _, err := m.Start(env(0, nil)); err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println(m.Name())
	// Output: rdma
}

func ExampleModule_Poll()     { ExampleModule_Send() }
func ExampleModule_Flush()    { ExampleModule_Send() }
func ExampleModule_Quiesce()  { ExampleModule_Send() }
func ExampleModule_Quiet()    { ExampleModule_Send() }
func ExampleModule_Continue() { ExampleModule_Send() }

// sink stands where an engine would.
type sink struct {
	writable bool
	payload  []byte
	got      string
}

func (s *sink) Begin(_ int, h *rpi.Header) ([]byte, error) {
	s.payload = make([]byte, h.PayloadLen())
	return s.payload, nil
}
func (s *sink) End(int)               { s.got = string(s.payload) }
func (s *sink) Sent(int, rpi.Ref)     {}
func (s *sink) Writable(int)          { s.writable = true }
func (s *sink) Down(_ int, err error) { log.Fatal(err) }
func (s *sink) Deliver(peer int, h *rpi.Header, payload []byte) error {
	dst, err := s.Begin(peer, h)
	if err != nil {
		return err
	}
	copy(dst, payload)
	s.End(peer)
	return nil
}
