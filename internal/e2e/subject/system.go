package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/e2e/seccomp"
	"github.com/gorun-mpi/gorun/mpi"
)

// claim reports whether this process is the first that wants a name.
func (s *stage) claim(name string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// child: rank 0 has a child process, with a line on its way through it, until it is let go, and waits again.
func child(s *stage, c *mpi.Comm) error {
	if c.Rank() == 0 {
		cmd := exec.Command("cat")
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		fmt.Fprintln(in, "before")
		s.here(0)
		s.wait("childless")
		fmt.Fprintln(in, "after")
		in.Close()
		text, err := io.ReadAll(out)
		if err := errors.Join(err, cmd.Wait()); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "without child: %q\n", text)
	} else {
		s.here(c.Rank())
	}
	s.wait("go")
	return s.everybody(c)
}

// conn: a connection of the program's own. It says whether it still works.
func conn(s *stage, c *mpi.Comm) error {
	tcp, err := dial(s.port)
	if err != nil {
		return err
	}
	defer tcp.Close()
	answered := make(chan error, 1)
	go func() { // blocked in the read while nothing happens
		_, err := io.ReadFull(tcp, make([]byte, 4))
		answered <- err
	}()
	s.here(c.Rank())
	s.wait("go")
	_, werr := tcp.Write([]byte("ping"))
	rerr := <-answered
	fmt.Fprintf(os.Stderr, "connection: alive=%v write: %v read: %v\n", werr == nil && rerr == nil, werr, rerr)
	return s.everybody(c)
}

// dial connects to a port of this machine. Package net would do it with C where
// there is a C compiler.
func dial(port string) (*os.File, error) {
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: n, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // before NewFile: it looks
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "connection"), nil
}

// pipe: one pipe with something in it, one whose reader waits.
func pipe(s *stage, c *mpi.Comm) error {
	full, fill, err := os.Pipe()
	if err != nil {
		return err
	}
	empty, say, err := os.Pipe()
	if err != nil {
		return err
	}
	text := make([]byte, 20_000)
	for i := range text {
		text[i] = byte(i * 7)
	}
	if _, err := fill.Write(text); err != nil {
		return err
	}
	heard := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(empty).ReadString('\n')
		heard <- line
	}()
	s.here(c.Rank())
	s.wait("go")
	if _, err := say.WriteString("hello\n"); err != nil {
		return err
	}
	if got := <-heard; got != "hello\n" {
		return fmt.Errorf("heard %q", got)
	}
	if err := fill.Close(); err != nil {
		return err
	}
	got, err := io.ReadAll(full)
	if err != nil || string(got) != string(text) {
		return fmt.Errorf("%d bytes in the pipe, want %d as written; %v", len(got), len(text), err)
	}
	return s.everybody(c)
}

// stdin: rank 0 reads a line, is in the situation, and reads another one.
func stdin(s *stage, c *mpi.Comm) error {
	if c.Rank() == 0 {
		in := bufio.NewReader(os.Stdin)
		for _, want := range []string{"one\n", "two\n"} {
			got, err := in.ReadString('\n')
			if err != nil || got != want {
				return fmt.Errorf("read %q, want %q; %v", got, want, err)
			}
			if want == "one\n" {
				s.here(0)
			}
		}
	} else {
		s.here(c.Rank())
	}
	return s.everybody(c)
}

// files: rank 0 has files of several kinds open and goes on with them.
func files(s *stage, c *mpi.Comm) error {
	if c.Rank() > 0 {
		s.here(c.Rank())
		s.wait("go")
		return s.everybody(c)
	}
	path := func(name string) string { return filepath.Join(s.dir, name) }
	if err := os.WriteFile(path("input"), []byte("0123456789"), 0o600); err != nil {
		return err
	}
	input, e1 := os.Open(path("input"))
	plain, e2 := os.OpenFile(path("plain"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) // what is only written to at its end is judged by its length
	added, e3 := os.OpenFile(path("added"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	unnamed, e4 := os.Create(path("unnamed"))
	if err := errors.Join(e1, e2, e3, e4, os.Remove(path("unnamed"))); err != nil {
		return err
	}
	head := make([]byte, 5)
	if _, err := io.ReadFull(input, head); err != nil {
		return err
	}
	write := func(from int) error {
		for i := from; i < from+10; i++ {
			for _, f := range []*os.File{plain, added, unnamed} {
				if _, err := fmt.Fprintf(f, "line %d\n", i); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := write(0); err != nil {
		return err
	}
	s.here(0)
	s.wait("go")
	if err := write(10); err != nil {
		return err
	}
	tail, err := io.ReadAll(input)
	if err != nil || string(head)+string(tail) != "0123456789" {
		return fmt.Errorf("read %q and %q; %v", head, tail, err)
	}
	kept, err := io.ReadAll(io.NewSectionReader(unnamed, 0, 1<<20))
	if want := lines(20); err != nil || string(kept) != want {
		return fmt.Errorf("the file without a name holds %q, want %q; %v", kept, want, err)
	}
	if err := errors.Join(input.Close(), plain.Close(), added.Close(), unnamed.Close()); err != nil {
		return err
	}
	return s.everybody(c)
}

// lines is what n writes leave in a file.
func lines(n int) string {
	s := ""
	for i := range n {
		s += fmt.Sprintf("line %d\n", i)
	}
	return s
}

// common: all ranks append to one file.
func common(s *stage, c *mpi.Comm) error {
	f, err := os.OpenFile(filepath.Join(s.dir, "common"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f, "rank %d before\n", c.Rank()); err != nil {
		return err
	}
	if err := mpi.Barrier(c); err != nil {
		return err
	}
	s.here(c.Rank())
	s.wait("go")
	if _, err := fmt.Fprintf(f, "rank %d after\n", c.Rank()); err != nil {
		return err
	}
	return errors.Join(f.Close(), s.everybody(c))
}

// places: all ranks write to one file, each at places of its own.
func places(s *stage, c *mpi.Comm) error {
	f, err := os.OpenFile(filepath.Join(s.dir, "places"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	write := func(from int) error {
		for i := from; i < from+5; i++ {
			record := fmt.Sprintf("record %2d of rank %d\n", i, c.Rank())
			if _, err := f.WriteAt([]byte(record), int64((i*c.Size()+c.Rank())*len(record))); err != nil {
				return err
			}
		}
		return nil
	}
	if err := errors.Join(write(0), mpi.Barrier(c)); err != nil {
		return err
	}
	s.here(c.Rank())
	s.wait("go")
	return errors.Join(write(5), f.Close(), s.everybody(c))
}

// descriptors: an event counter, a timer and an epoll set of the program's own,
// and one file under two numbers.
func descriptors(s *stage, c *mpi.Comm) error {
	event, e1 := unix.Eventfd(3, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	timer, e2 := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	set, e3 := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	f, e4 := os.Create(filepath.Join(s.dir, fmt.Sprint("twice", c.Rank())))
	if err := errors.Join(e1, e2, e3, e4); err != nil {
		return err
	}
	twin, e5 := unix.Dup(int(f.Fd()))
	each := unix.NsecToTimespec(int64(5 * time.Millisecond))
	e6 := unix.TimerfdSettime(timer, 0, &unix.ItimerSpec{Value: each, Interval: each}, nil)
	e7 := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(event)})
	if err := errors.Join(e5, e6, e7); err != nil {
		return err
	}
	s.here(c.Rank())
	s.wait("go")
	var ready [4]unix.EpollEvent
	if n, err := unix.EpollWait(set, ready[:], 1000); err != nil || n != 1 || ready[0].Fd != int32(event) {
		return fmt.Errorf("epoll: %d ready, %+v, %v", n, ready[0], err)
	}
	var word [8]byte
	if n, err := unix.Read(event, word[:]); err != nil || n != 8 || word[0] != 3 {
		return fmt.Errorf("eventfd: %v %v", word, err)
	}
	if n, err := unix.Read(timer, word[:]); err != nil || n != 8 {
		return fmt.Errorf("timerfd: %v %v", word, err)
	}
	if _, err := f.WriteString("first "); err != nil {
		return err
	}
	if _, err := unix.Write(twin, []byte("second")); err != nil { // at the offset that the two share
		return err
	}
	if got, err := os.ReadFile(f.Name()); err != nil || string(got) != "first second" {
		return fmt.Errorf("the file of two descriptors holds %q, %v", got, err)
	}
	return s.everybody(c)
}

// undumpable: the process does not let itself be looked at.
func undumpable(s *stage, c *mpi.Comm) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	s.here(c.Rank())
	s.wait("go")
	return s.everybody(c)
}

// hermit: one rank does not let the others look into it.
func hermit(s *stage) error {
	first, err := s.claim("hermit")
	if err == nil && first {
		err = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if err != nil {
		return err
	}
	mpi.Run(func(c *mpi.Comm) error { return s.everybody(c) })
	return nil
}

// confined: when it has begun, the program forbids itself to look into the memory of
// other processes. Before and after, all wait for rank 0, which reads a line.
func confined(s *stage, c *mpi.Comm) error {
	in := bufio.NewReader(os.Stdin)
	wait := func() error {
		err := s.pairs(c)
		s.here(c.Rank())
		if c.Rank() == 0 {
			_, e := in.ReadString('\n')
			err = errors.Join(err, e)
		}
		return errors.Join(err, mpi.Barrier(c))
	}
	if err := wait(); err != nil {
		return err
	}
	if err := seccomp.Deny(unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV); err != nil {
		return err
	}
	return errors.Join(wait(), s.everybody(c))
}

// pairs exchanges a large message with each other rank, one after the other.
func (s *stage) pairs(c *mpi.Comm) error {
	for step := 1; step < c.Size(); step++ {
		to, from := (c.Rank()+step)%c.Size(), (c.Rank()-step+c.Size())%c.Size()
		recv := make([]uint64, large)
		if _, err := mpi.Sendrecv(c, noise(large, uint64(c.Rank())), to, 7, recv, from, 7); err != nil {
			return err
		}
		if err := same(recv, uint64(from)); err != nil {
			return fmt.Errorf("from rank %d: %w", from, err)
		}
	}
	return nil
}

// sharedmap: a file that is written to by a shared mapping, beside one that is open for reading and writing, as a database has them. The other one is too large
// for an image to hold both as they were at one moment.
func sharedmap(s *stage, c *mpi.Comm) error {
	f, err := os.Create(filepath.Join(s.dir, fmt.Sprint("shared", c.Rank())))
	if err != nil {
		return err
	}
	if err := f.Truncate(1 << 16); err != nil {
		return err
	}
	p, err := syscall.Mmap(int(f.Fd()), 0, 1<<16, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	beside, err := os.Create(filepath.Join(s.dir, fmt.Sprint("beside", c.Rank())))
	if err != nil {
		return err
	}
	if err := beside.Truncate(65 << 20); err != nil {
		return err
	}
	p[0] = 1
	s.here(c.Rank())
	s.wait("go")
	p[1] = 2
	return errors.Join(syscall.Munmap(p), f.Close(), beside.Close(), s.everybody(c))
}
