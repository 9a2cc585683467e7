package opencl_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/offload"
)

// The test binary is also a gorun-device, whose device is memory of its own and knows a few kernels by name.
func TestMain(m *testing.M) {
	if os.Getenv("GORUN_DEVICE_SERVER") != "" && len(os.Args) > 1 {
		info := offload.Info{Kind: "accelerator", Name: "fake", Platform: "test", Units: 2, Double: true}
		switch os.Args[1] {
		case "list":
			json.NewEncoder(os.Stdout).Encode([]offload.Info{info, info})
			return
		case "serve":
			if err := serve(info); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	os.Setenv("GORUN_DEVICE_SERVER", self)
	os.Exit(m.Run())
}

// fake is the state of the process.
type fake struct {
	s       *offload.Shared
	memory  map[uint64][]byte
	kernels map[uint64]string
}

func serve(info offload.Info) error {
	mem, err := unix.Mmap(4, 0, offload.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	f := &fake{memory: map[uint64][]byte{}, kernels: map[uint64]string{}}
	if f.s, err = offload.Attach(mem); err != nil {
		return err
	}
	answer := offload.Answer{Op: offload.Hello, Version: offload.Version, Info: &info}
	if os.Args[3] != "0" {
		answer = offload.Answer{Op: offload.Hello, Error: "no such device"}
	}
	p, err := offload.Packet(answer)
	if err != nil {
		return err
	}
	if _, err := unix.Write(3, p); err != nil || answer.Error != "" {
		return err
	}
	go func() { // ends with the rank
		unix.Read(3, p)
		os.Exit(0)
	}()
	f.s.SetState(offload.Running)
	var c offload.Command
	for t := uint64(1); ; t++ {
		for f.s.Tail() < t {
			f.s.WaitTail(t-1, func() bool { return false })
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

// run knows: add (y, c), which adds c to all of y; many, with the most arguments; fail, die.
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
	default:
		return fmt.Errorf("kernel %s: as it is to", name)
	}
	return nil
}
