package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/cltest"
	"github.com/gorun-mpi/gorun/cmd/gorun-device/internal/ranktest"
	"github.com/gorun-mpi/gorun/internal/offload"
)

// TestMain is gorun-device where a test starts it as that.
func TestMain(m *testing.M) {
	if os.Getenv("GORUN_DEVICE_TEST") != "" {
		main()
		os.Exit(0)
	}
	code := m.Run()
	if os.Getenv("GORUN_DEVICE_PROGRAMS") == "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// command is gorun-device.
func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...)
	c.Env = append(env, "GORUN_DEVICE_TEST=1")
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// place is a device as a process finds it that loads one library only.
type place struct {
	env    []string
	number int
}

// places returns the devices of all libraries that are here.
func places(t *testing.T) (all []place) {
	cltest.Need(t)
	dir := t.TempDir()
	for _, name := range cltest.Libraries() {
		env, err := cltest.Environment(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range cltest.Devices[name] {
			all = append(all, place{env, i})
		}
	}
	return all
}

// TestList has the command tell devices.
func TestList(t *testing.T) {
	at := places(t)[0]
	out, err := command(t, at.env, "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var infos []offload.Info
	if err := json.Unmarshal(out, &infos); err != nil || len(infos) <= at.number || infos[0].Name == "" || infos[0].Memory == 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestSmoke tries a device as people do.
func TestSmoke(t *testing.T) {
	out, err := command(t, places(t)[0].env, "smoke", "-moves", "16,32").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kernels compute what they should", "launch and wait", "read 16 MB", "32 MB", "pause in the middle of a kernel"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// process is an offload process behind a rank.
type process struct {
	*ranktest.Rank
	cmd *exec.Cmd
}

// start starts a process and returns its greeting.
func (p *process) start(at place, args ...string) offload.Answer {
	theirs := p.Connect()
	defer theirs.Close()
	p.cmd = command(p.T, at.env, append([]string{"serve", "-device", "opencl:" + strconv.Itoa(at.number)}, args...)...)
	p.cmd.ExtraFiles = []*os.File{theirs, p.Shared}
	p.Must(p.cmd.Start())
	return p.Answer()
}

// end waits for the end of the process.
func (p *process) end() error {
	p.Conn.Close()
	return p.cmd.Wait()
}

const text = `
__kernel void next(__global uint *out, __global const uint *in, const uint n) {
	uint i = get_global_id(0);
	out[i] = in[(i + 1) % n] * 3u + i;
}
`

// The program: two memories and a kernel that goes from one to the other and back.
const (
	words   = 64
	kernel  = 1
	memA    = 1
	memB    = 2
	scratch = 3
)

func (p *process) setUp() {
	if text, refused := p.Build(kernel, "next", text); refused {
		p.Fatal(text)
	}
	for _, id := range []uint64{memA, memB, scratch} {
		if text, refused := p.Alloc(id, 4*words); refused {
			p.Fatal(text)
		}
	}
	p.Write(memA, want(0))
}

// steps puts n steps, and returns the last ticket.
func (p *process) steps(from, n int) (last uint64) {
	for i := from; i < from+n; i++ {
		in, out := uint64(memA), uint64(memB)
		if i%2 == 1 {
			in, out = out, in
		}
		last = p.Put(offload.Command{Op: offload.Run, Flags: offload.Timed, A: [8]uint64{kernel, 1, words, 0, 0, 16},
			Args: []offload.Arg{{Kind: offload.ArgMemory, Value: out}, {Kind: offload.ArgMemory, Value: in}, {Kind: offload.ArgScalar, Bytes: 4, Value: words}}})
	}
	return last
}

// want is what the memory holds after n steps that was written last.
func want(n int) []byte {
	v := make([]uint32, words)
	for i := range v {
		v[i] = uint32(i * i)
	}
	for range n {
		next := make([]uint32, words)
		for i := range next {
			next[i] = v[(i+1)%words]*3 + uint32(i)
		}
		v = next
	}
	var b []byte
	for _, x := range v {
		b = binary.NativeEndian.AppendUint32(b, x)
	}
	return b
}

// TestElsewhere has one program go from device to device, of all libraries there are, and back. Each time commands lie in the ring
// that the next device carries out.
func TestElsewhere(t *testing.T) {
	devices := places(t)
	p := &process{Rank: ranktest.New(t)}
	if a := p.start(devices[0]); a.Op != offload.Hello || a.Error != "" {
		t.Fatalf("greeting %+v", a)
	}
	p.setUp()
	steps := 0
	for i := range devices {
		p.Wait(p.steps(steps, 5))
		if begin, end := p.Ring.Times(p.Tail); begin <= 0 || end < begin {
			t.Errorf("the last kernel ran from %d to %d", begin, end)
		}
		if a := p.Order(offload.Order{Op: offload.OrderPause, Attempt: 1}, "paused"); a.Taken != p.Tail {
			t.Errorf("paused at %d of %d", a.Taken, p.Tail)
		}
		p.steps(steps+5, 3) // for the next device
		steps += 8
		p.move(devices[(i+1)%len(devices)])
	}
	if got, want := p.Read(memA, 4*words), want(steps); !bytes.Equal(got, want) {
		t.Errorf("after %d steps on %d devices\n%v\nwant\n%v", steps, len(devices), got, want)
	}
	p.Must(p.end())
}

// move has another process go on with another device.
func (p *process) move(to place) {
	capture := filepath.Join(p.TempDir(), "capture")
	p.Order(offload.Order{Op: offload.OrderCapture, Attempt: 1, Path: capture, End: true, Skip: []uint64{scratch}}, "captured")
	if a := p.Answer(); a.Op != "ended" {
		p.Fatalf("%+v", a)
	}
	p.Must(p.end())
	if a := p.start(to, "-restore", capture); a.Op != offload.Hello || a.Error != "" || p.Ring.State() != offload.Paused {
		p.Fatalf("greeting %+v", a)
	}
	p.Order(offload.Order{Op: offload.OrderResume, Attempt: 2}, "running")
}

// TestNoDevice has a process that cannot serve say why.
func TestNoDevice(t *testing.T) {
	p := &process{Rank: ranktest.New(t)}
	a := p.start(place{places(t)[0].env, 99})
	if a.Op != offload.Hello || !strings.Contains(a.Error, "no device opencl:99: this machine has") {
		t.Errorf("greeting %+v", a)
	}
	if p.end() == nil {
		t.Error("exit status 0")
	}
}
