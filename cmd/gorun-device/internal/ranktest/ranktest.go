// Package ranktest is the rank's side of an offload process, for tests: a program that has one device and asks for everything by hand.
package ranktest

import (
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/offload"
)

// Rank is a rank. A failure ends its test.
type Rank struct {
	*testing.T
	Shared *os.File
	Ring   *offload.Shared
	Conn   net.Conn // to the offload process
	Tail   uint64   // the last command that was put
}

// New makes a rank with a new ring.
func New(t *testing.T) *Rank {
	f, err := offload.NewFile()
	r := &Rank{T: t, Shared: f}
	r.Must(err)
	mem, err := unix.Mmap(int(f.Fd()), 0, offload.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	r.Must(err)
	r.Ring, err = offload.Format(mem)
	r.Must(err)
	t.Cleanup(func() { r.Shared.Close() }) // a worker of a test may still look at the memory
	return r
}

// Must wants no error.
func (r *Rank) Must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// Connect makes a socket, and returns the end that the offload process gets.
func (r *Rank) Connect() *os.File {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	r.Must(err)
	ours := os.NewFile(uintptr(fds[1]), "socket")
	defer ours.Close()
	r.Conn, err = net.FileConn(ours)
	r.Must(err)
	r.Ring.Epoch().Add(1)
	return os.NewFile(uintptr(fds[0]), "socket")
}

// Answer waits for the next answer.
func (r *Rank) Answer() offload.Answer {
	r.Helper()
	for {
		if a := r.packet(); a.Op != offload.Begun {
			return a
		}
	}
}

func (r *Rank) packet() offload.Answer {
	r.Helper()
	buf := make([]byte, offload.MaxPacket)
	r.Conn.SetReadDeadline(time.Now().Add(time.Minute))
	n, err := r.Conn.Read(buf)
	r.Must(err)
	a, err := offload.ParseAnswer(buf[:n])
	r.Must(err)
	return a
}

// Order orders something and returns the answer, which has to be of state op.
func (r *Rank) Order(o offload.Order, op string) offload.Answer {
	r.Helper()
	p, err := offload.Packet(o)
	r.Must(err)
	_, err = r.Conn.Write(p)
	r.Must(err)
	a := r.Answer()
	if a.Op != op || a.Attempt != o.Attempt {
		r.Fatalf("%+v answered by %+v", o, a)
	}
	return a
}

// Put puts a command and returns its ticket.
func (r *Rank) Put(c offload.Command) uint64 {
	r.Tail++
	r.Must(r.Ring.Put(r.Tail, &c))
	r.Ring.PutTail(r.Tail)
	return r.Tail
}

// Done waits until a command is done, whether it failed or not.
func (r *Rank) Done(t uint64) {
	for r.Ring.Done() < t {
		r.Ring.WaitDone(r.Ring.Done())
	}
}

// Wait waits for a command, and fails the test with what the device says.
func (r *Rank) Wait(t uint64) {
	r.Helper()
	r.Done(t)
	if ticket, text := r.Ring.Failed(); ticket != 0 {
		r.Fatalf("command %d failed: %s", ticket, text)
	}
}

// room is what Alloc and Build have for an answer, at the begin of staging.
const room = 4096

// Alloc makes a memory. The text says why not.
func (r *Rank) Alloc(id, bytes uint64) (text string, refused bool) {
	t := r.Put(offload.Command{Op: offload.Alloc, A: [8]uint64{id, bytes, 0, 0, room}})
	r.Done(t)
	return r.Ring.Refused(t, 0, room)
}

// Build makes a kernel. The text says why not.
func (r *Rank) Build(id uint64, name, source string) (text string, refused bool) {
	staging := r.Ring.Staging()
	n := copy(staging, name)
	n += copy(staging[n:], source)
	t := r.Put(offload.Command{Op: offload.Build, A: [8]uint64{id, 0, uint64(len(source)), uint64(len(name)), 0, room}})
	r.Done(t)
	return r.Ring.Refused(t, 0, room)
}

// Write writes to a memory, from its begin.
func (r *Rank) Write(id uint64, p []byte) {
	r.Helper()
	copy(r.Ring.Staging(), p)
	r.Wait(r.Put(offload.Command{Op: offload.Write, A: [8]uint64{id, 0, uint64(len(p)), 0}}))
}

// Read reads n bytes of a memory.
func (r *Rank) Read(id, n uint64) []byte {
	r.Helper()
	r.Wait(r.Put(offload.Command{Op: offload.Read, A: [8]uint64{id, 0, n, 128}}))
	return r.Ring.Staging()[128 : 128+n]
}
