package shm_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/shm"
)

// env is what a launcher tells the module of a rank.
func env(rank int, s rpi.Sink) rpi.Env {
	return rpi.Env{
		Rank: rank, Size: 2, Incarnation: 1, Sink: s,
		Secret: []byte("known to the ranks of this job"),
		Params: map[string]string{"shm.eager": "4096", "shm.direct": "10000"},
	}
}

// twoModules are two ranks that have met; each could be in a process of its own.
func twoModules(sinks [2]rpi.Sink) (ends [2]*shm.Module) {
	addrs := make([][]byte, 2)
	for rank := range ends {
		ends[rank] = shm.New()
		var err error
		if addrs[rank], err = ends[rank].Start(env(rank, sinks[rank])); err != nil {
			log.Fatal(err)
		}
	}
	for rank, m := range ends {
		if err := m.Peers(addrs); err != nil {
			log.Fatal(err)
		}
		if !m.Reaches(1 - rank) {
			log.Fatal(m.Unreached(1 - rank))
		}
	}
	return ends
}

// Two engines exchange a message through memory.
func ExampleNew() {
	var engines [2]*engine.Engine
	addrs := make([][]byte, 2)
	var modules [2]*shm.Module
	for rank := range engines {
		modules[rank] = shm.New()
		engines[rank] = engine.New(engine.Config{Rank: rank, Size: 2, Modules: []rpi.Module{modules[rank]}})
		defer engines[rank].Close()
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
	sent := make(chan error)
	go func() { sent <- engines[0].Send(1, 1, 0, nil, []byte("through memory"), engine.Standard, nil) }()
	p := make([]byte, 32)
	st, err := engines[1].Recv(0, 1, 0, nil, p, nil)
	fmt.Printf("%s %v %v\n", p[:st.Bytes], err, <-sent)
	// Output: through memory <nil> <nil>
}

func ExampleParameters() {
	for _, p := range shm.Parameters()[:1] {
		fmt.Printf("%s=%s: %s\n", p.Name, p.Default, p.Doc)
	}
	// Output: shm.eager=65536: largest message sent without an announcement, bytes
}

// A misspelt parameter is an error; a machine that lacks something is
// rpi.ErrUnavailable, and another transport takes over.
func ExampleCheckParams() {
	fmt.Println(shm.CheckParams(map[string]string{"shm.eager": "4096", "other.eager": "x"}))
	fmt.Println(shm.CheckParams(map[string]string{"shm.eager": "many"}) != nil)
	// Output:
	// <nil>
	// true
}

func ExampleModule_Start() {
	e := env(0, nil)
	e.Params = map[string]string{"shm.eagre": "4096"}
	_, err := shm.New().Start(e)
	fmt.Println(err, errors.Is(err, rpi.ErrUnavailable))
	// Output: shm: unknown parameter shm.eagre false
}

func ExampleModule_EagerLimit() {
	m := shm.New()
	if _, err := m.Start(env(0, nil)); err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println(m.Name(), m.EagerLimit(), m.DirectMin())
	// Output: shm 4096 10000
}

func ExampleModule_Name()      { ExampleModule_EagerLimit() }
func ExampleModule_Close()     { ExampleModule_EagerLimit() }
func ExampleModule_DirectMin() { ExampleModule_EagerLimit() }

// A rank that does not prove to know the secret of the job is not reached.
func ExampleModule_Unreached() {
	m, stranger := shm.New(), shm.New()
	defer m.Close()
	defer stranger.Close()
	addr, err := m.Start(env(0, nil))
	if err != nil {
		log.Fatal(err)
	}
	e := env(1, nil)
	e.Secret = []byte("a guess")
	theirs, err := stranger.Start(e)
	if err != nil {
		log.Fatal(err)
	}
	m.Peers([][]byte{addr, theirs})
	fmt.Println(m.Reaches(1), m.Unreached(1))
	// Output: false shm: rank 1: its segment does not prove that it belongs to this job
}

func ExampleModule_Reaches() { ExampleModule_Unreached() }
func ExampleModule_Peers()   { ExampleModule_Unreached() }

// If one of two ranks does not reach the other, neither uses the transport.
func ExampleModule_Forgo() {
	ends := twoModules([2]rpi.Sink{})
	defer ends[0].Close()
	defer ends[1].Close()
	ends[0].Forgo(1)
	fmt.Println(ends[0].Reaches(1), ends[0].Unreached(1))
	// Output: false shm: rank 1: it does not reach this rank
}

// One goroutine sleeps for all peers; any other may wake it.
func ExampleModule_Wait() {
	m := shm.New()
	if _, err := m.Start(env(0, nil)); err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	m.Yield() // perhaps somebody else has something to do meanwhile
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

// A process that came back from its image has memory of its own only: it begins
// anew.
func ExampleModule_Restart() {
	m := shm.New()
	if _, err := m.Start(env(0, nil)); err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	addr, err := m.Restart(env(0, nil))
	fmt.Println(len(addr) > 0, err)
	// Output: true <nil>
}

// Frames as an engine hands them over.
func ExampleModule_Send() {
	var sinks [2]sink
	ends := twoModules([2]rpi.Sink{&sinks[0], &sinks[1]})
	a, b := ends[0], ends[1]
	defer a.Close()
	defer b.Close()

	h := rpi.Header{Kind: rpi.Eager, Len: 5}
	fmt.Println(a.Send(1, &h, []byte("hello"), 0, false) == rpi.Taken, a.Flush())
	for sinks[1].got == "" {
		b.Poll()
	}
	fmt.Println(sinks[1].got)

	a.Quiesce() // a gate closes: nothing is on its way
	b.Quiesce()
	fmt.Println(a.Quiet(), b.Quiet())
	a.Continue()
	b.Continue()
	// Output:
	// true true
	// hello
	// true true
}

func ExampleModule_Poll()     { ExampleModule_Send() }
func ExampleModule_Flush()    { ExampleModule_Send() }
func ExampleModule_Quiesce()  { ExampleModule_Send() }
func ExampleModule_Quiet()    { ExampleModule_Send() }
func ExampleModule_Continue() { ExampleModule_Send() }

// A long message is copied from process to process, where the kernel allows it:
// the receiver reads one part of it while the sender writes the other.
func ExampleModule_Publish() {
	ends := twoModules([2]rpi.Sink{})
	a, b := ends[0], ends[1]
	defer a.Close()
	defer b.Close()

	buf := make([]byte, 20000)
	key, ok := b.Publish(0, buf)
	if ok {
		ok = a.Write(1, key, 7, []byte("one copy"))
		b.Withdraw(0, key)
		ok = ok && !a.Write(1, key, 0, []byte("too late"))
	} else {
		copy(buf[7:], "one copy") // as Data frames
		ok = true
	}
	fmt.Printf("%s %v\n", buf[7:15], ok)
	// Output: one copy true
}

func ExampleModule_Withdraw() { ExampleModule_Publish() }
func ExampleModule_Write()    { ExampleModule_Publish() }
func ExampleModule_Read()     { ExampleModule_Publish() }

// sink stands where an engine would.
type sink struct{ got string }

func (s *sink) Begin(int, *rpi.Header) ([]byte, error) { return nil, errors.New("in pieces") }
func (s *sink) End(int)                                {}
func (s *sink) Sent(int, rpi.Ref)                      {}
func (s *sink) Writable(int)                           {}
func (s *sink) Down(_ int, err error)                  { log.Fatal(err) }
func (s *sink) Deliver(_ int, _ *rpi.Header, payload []byte) error {
	s.got = string(payload)
	return nil
}
