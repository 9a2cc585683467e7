// Package fake is an offload process for tests. It has the protocol of internal/offload, and no device.
package fake

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/offload"
)

// Main makes the test binary a gorun-device, whose two devices are memory of its own and know a few kernels by name. TestMain calls it, and
// exits if it returns true: this process was one, and has ended.
func Main() bool {
	if os.Getenv("GORUN_DEVICE_SERVER") == "" || len(os.Args) < 2 {
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		os.Setenv("GORUN_DEVICE_SERVER", self)
		return false
	}
	info := offload.Info{Library: "opencl", Kind: "accelerator", Name: "fake", Platform: "test", Units: 2, Double: true}
	switch os.Args[1] {
	case "list":
		json.NewEncoder(os.Stdout).Encode([]offload.Info{info, numbered(info, "opencl:1")})
		return true
	case "serve":
		if os.Getenv("GORUN_TEST_SILENT") != "" {
			unix.Pause() // as if its loader hung
		}
		if err := serve(info); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return true
	}
	return false
}

// fake is the state of the process.
type fake struct {
	s       *offload.Shared
	memory  map[uint64][]byte
	kernels map[uint64]string

	mu      sync.Mutex
	changed sync.Cond
	pausing uint32 // attempt of the order, until it is answered
	paused  bool
}

func serve(info offload.Info) error {
	mem, err := unix.Mmap(4, 0, offload.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	f := &fake{memory: map[uint64][]byte{}, kernels: map[uint64]string{}}
	f.changed.L = &f.mu
	if f.s, err = offload.Attach(mem); err != nil {
		return err
	}
	answer := offload.Answer{Op: offload.Hello, Version: offload.Version, Info: &info}
	if info = numbered(info, os.Args[3]); info.Number > 1 {
		answer = offload.Answer{Op: offload.Hello, Error: "no such device"}
	}
	if len(os.Args) > 5 {
		if os.Getenv("GORUN_TEST_FULL") != "" && answer.Error == "" {
			answer = offload.Answer{Op: offload.Hello, Error: "no memory is left"}
		}
		f.paused = true
		if err := f.restore(os.Args[5]); err != nil {
			return err
		}
	}
	if tell(answer); answer.Error != "" {
		return nil
	}
	f.s.SetState(offload.Running)
	go f.listen()
	var c offload.Command
	for t := f.s.Done() + 1; ; t++ {
		for f.hold(); f.s.Tail() < t; f.hold() {
			f.s.WaitTail(t-1, f.asked)
		}
		if err := f.s.Get(t, &c); err != nil {
			return err
		}
		f.s.SetTaken(t)
		if at, _ := f.s.Failed(); at == 0 {
			if err := f.do(t, &c); err != nil {
				f.s.Fail(t, err.Error())
			}
		}
		f.s.SetDone(t)
	}
}

// numbered is the device with that ID.
func numbered(info offload.Info, id string) offload.Info {
	fmt.Sscanf(id, "opencl:%d", &info.Number)
	return info
}

func tell(a offload.Answer) {
	p, err := offload.Packet(a)
	if err == nil {
		_, err = unix.Write(3, p)
	}
	if err != nil {
		os.Exit(0) // the rank has ended
	}
}

// asked reports whether there is an order to pause.
func (f *fake) asked() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pausing != 0
}

// hold stands still while the process is paused, and answers an order to pause.
func (f *fake) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pausing != 0 {
		f.paused = true
		tell(offload.Answer{Op: "paused", Attempt: f.pausing})
		f.pausing = 0
	}
	for f.paused {
		f.changed.Wait()
	}
}

// listen obeys orders until the rank has ended.
func (f *fake) listen() {
	p := make([]byte, offload.MaxPacket)
	for {
		n, err := unix.Read(3, p)
		if err != nil || n == 0 {
			os.Exit(0)
		}
		o, err := offload.ParseOrder(p[:n])
		if err != nil {
			panic(err)
		}
		f.obey(o)
	}
}

func (f *fake) obey(o offload.Order) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch o.Op {
	case offload.OrderPause:
		f.pausing = o.Attempt
		f.s.Nudge()
	case offload.OrderLate:
		if o.Attempt != f.pausing {
			return // as gorun-device
		}
		tell(offload.Answer{Op: "pausing", Attempt: o.Attempt, Error: "still waits for kernel gate"})
	case offload.OrderResume, offload.OrderRevert:
		f.pausing, f.paused = 0, false
		f.changed.Broadcast()
		tell(offload.Answer{Op: "running", Attempt: o.Attempt})
	case offload.OrderCapture:
		if err := f.capture(o); err != nil {
			tell(offload.Answer{Op: "paused", Attempt: o.Attempt, Error: err.Error()})
			return
		}
		tell(offload.Answer{Op: "captured", Attempt: o.Attempt})
		if o.End {
			os.Exit(0)
		}
	}
}

// onDisk is a capture.
type onDisk struct {
	Memory  map[uint64][]byte
	Kernels map[uint64]string
}

func (f *fake) capture(o offload.Order) error {
	kept := onDisk{map[uint64][]byte{}, f.kernels}
	for id, m := range f.memory {
		kept.Memory[id] = append([]byte(nil), m...)
		if slices.Contains(o.Skip, id) {
			clear(kept.Memory[id])
		}
	}
	p, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return os.WriteFile(o.Path, p, 0o600)
}

func (f *fake) restore(path string) error {
	p, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	kept := onDisk{f.memory, f.kernels}
	return json.Unmarshal(p, &kept)
}

func (f *fake) do(t uint64, c *offload.Command) error {
	a := c.A
	staging := f.s.Staging()
	switch c.Op {
	case offload.Write:
		copy(f.memory[a[0]][a[1]:][:a[2]], staging[a[3]:])
	case offload.Read:
		copy(staging[a[3]:], f.memory[a[0]][a[1]:][:a[2]])
	case offload.Copy:
		copy(f.memory[a[0]][a[1]:][:a[4]], f.memory[a[2]][a[3]:])
	case offload.Alloc:
		if a[1] > 1<<30 {
			f.s.Refuse(t, a[3], a[4], "the fake has no more than 1 GiB")
			return nil
		}
		f.memory[a[0]] = make([]byte, a[1])
	case offload.Free:
		delete(f.memory, a[0])
	case offload.Build:
		words := string(staging[a[1]:][:a[3]+a[4]+a[2]])
		if strings.Contains(words[a[3]+a[4]:], "mistake") {
			f.s.Refuse(t, a[1], a[5], "line 1: error: a mistake")
			return nil
		}
		f.kernels[a[0]] = words[:a[3]]
	case offload.Run:
		f.s.SetTimes(t, 1000, 3000)
		return f.run(c)
	}
	return nil
}

// run knows: add (y, c), which adds c to all of y; many, with the most arguments; fail, die, gate.
func (f *fake) run(c *offload.Command) error {
	switch name := f.kernels[c.A[0]]; name {
	case "add":
		m := f.memory[c.Args[0].Value]
		y := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(m))), len(m)/8)
		for i := range c.A[2] {
			y[i] += int64(c.Args[1].Value)
		}
	case "many":
		for i, a := range c.Args[1:] {
			if a.Value != uint64(i) || a.Bytes != 2 {
				return fmt.Errorf("kernel many: argument %d is %+v", i+1, a)
			}
		}
	case "die":
		os.Exit(3)
	case "gate": // until there is a file of the name that the test has chosen; one of that name and "begun" says that it waits
		if err := os.WriteFile(os.Getenv("GORUN_TEST_GATE")+"begun", nil, 0o600); err != nil {
			return err
		}
		for _, err := os.Stat(os.Getenv("GORUN_TEST_GATE")); err != nil; _, err = os.Stat(os.Getenv("GORUN_TEST_GATE")) {
			time.Sleep(time.Millisecond)
		}
	default:
		return fmt.Errorf("kernel %s: as it is to", name)
	}
	return nil
}
