package native

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The test program, started again with this variable, is a program whose memory
// is followed.
const dirtyChildVar = "GORUN_TEST_DIRTY_CHILD"

func init() {
	if os.Getenv(dirtyChildVar) != "" {
		(&dirtyChild{out: os.Stdout}).serve()
		os.Exit(0)
	}
}

// Where the child works: a piece of its address space where nothing else is.
const (
	arenaStart = uint64(0x6a0000000000)
	arenaPages = 3 * windowPages
	arenaEnd   = arenaStart + arenaPages*PageSize
)

// dirtyChild does to its memory what the lines on its standard input say.
type dirtyChild struct {
	out    *os.File
	rand   *rand.Rand
	mapped [arenaPages]bool
	forks  []int
	keep   [][]byte
	pipe   [2]int
}

func (c *dirtyChild) serve() {
	check(unix.Pipe2(c.pipe[:], unix.O_CLOEXEC))
	unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		n, _ := strconv.Atoi(rest)
		switch word {
		case "userfaultfd":
			fd, _, errno := unix.RawSyscall(unix.SYS_USERFAULTFD, userfaultFlags, 0, 0)
			check(errnoError(errno))
			fmt.Fprintln(c.out, fd)
		case "close":
			check(unix.Close(n))
			fmt.Fprintln(c.out, "ok")
		case "seed":
			c.rand = rand.New(rand.NewPCG(uint64(n), 7))
			c.mmap(0, arenaPages)
			fmt.Fprintln(c.out, "ok")
		case "do":
			for range n {
				c.something()
			}
			fmt.Fprintln(c.out, "ok")
		case "fill": // n MB beside the arena
			mem, err := unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			check(err)
			for i := 0; i < len(mem); i += PageSize {
				mem[i] = 1
			}
			c.keep = append(c.keep, mem)
			fmt.Fprintln(c.out, uintptr(unsafe.Pointer(&mem[0])))
		case "touch": // every n-th page of what was filled last
			mem := c.keep[len(c.keep)-1]
			for i := 0; i < len(mem); i += n * PageSize {
				mem[i]++
			}
			fmt.Fprintln(c.out, "ok")
		}
	}
	c.endForks()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func errnoError(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func pageAt(n int) uintptr { return uintptr(arenaStart) + uintptr(n)*PageSize }

// page gives the bytes of a page of the arena.
func (c *dirtyChild) page(n int) []byte {
	addr := pageAt(n) // memory that Go does not manage
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), PageSize)
}

func (c *dirtyChild) call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	return errnoError(errno)
}

func (c *dirtyChild) mmap(first, n int) {
	check(c.call(unix.SYS_MMAP, pageAt(first), uintptr(n)*PageSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED, ^uintptr(0), 0))
	for i := range n {
		c.mapped[first+i] = true
	}
}

// run picks a run of pages that are all mapped, as far as it finds one.
func (c *dirtyChild) run(most int) (first, n int) {
	for range 100 {
		first = c.rand.IntN(arenaPages)
		for n = 0; n < 1+c.rand.IntN(most) && first+n < arenaPages && c.mapped[first+n]; n++ {
		}
		if n > 0 {
			return first, n
		}
	}
	c.mmap(0, arenaPages)
	return 0, 1
}

// write changes something in a page, or makes it all zero.
func (c *dirtyChild) write(n int) {
	p := c.page(n)
	if c.rand.IntN(8) == 0 {
		clear(p)
		return
	}
	p[c.rand.IntN(PageSize)] = byte(c.rand.Uint32())
}

// something does one of all the things that change memory or its mappings.
func (c *dirtyChild) something() {
	first, n := c.run([]int{1, 8, 100, 900}[c.rand.IntN(4)])
	addr, size := pageAt(first), uintptr(n)*PageSize
	switch c.rand.IntN(24) {
	default:
		for i := range n {
			c.write(first + i)
		}
	case 0:
		check(c.call(unix.SYS_MADVISE, addr, size, unix.MADV_DONTNEED))
	case 1:
		check(c.call(unix.SYS_MADVISE, addr, size, unix.MADV_FREE))
	case 2: // a new mapping at an old address
		check(c.call(unix.SYS_MUNMAP, addr, size))
		c.mmap(first, n)
		c.write(first)
	case 3:
		c.mmap(first, n) // over the old one
		c.write(first + n - 1)
	case 4:
		check(c.call(unix.SYS_MUNMAP, addr, size))
		for i := range n {
			c.mapped[first+i] = false
		}
	case 5:
		c.fillHole()
	case 6:
		c.move(first, n, unix.MREMAP_FIXED|unix.MREMAP_MAYMOVE)
	case 7:
		c.move(first, n, unix.MREMAP_FIXED|unix.MREMAP_MAYMOVE|unix.MREMAP_DONTUNMAP)
	case 8: // shrunk and grown again
		if n > 1 {
			half := size / 2 / PageSize * PageSize
			if c.call(unix.SYS_MREMAP, addr, size, half, 0) == nil && c.call(unix.SYS_MREMAP, addr, half, size, 0) != nil {
				c.mmap(first+int(half/PageSize), n-int(half/PageSize)) // it was more than one mapping
			}
		}
	case 9:
		check(c.call(unix.SYS_MPROTECT, addr, size, unix.PROT_READ))
		if c.rand.IntN(2) == 0 {
			check(os.WriteFile("/proc/self/comm", []byte("x"), 0)) // some time passes
		}
		check(c.call(unix.SYS_MPROTECT, addr, size, unix.PROT_READ|unix.PROT_WRITE))
		c.write(first)
	case 10: // reading brings the zero page in
		for i := range n {
			sink += c.page(first + i)[0]
		}
	case 11:
		c.fork()
	case 12:
		c.kernelWrites(first, n)
	case 13:
		check(c.call(unix.SYS_MADVISE, addr, size, unix.MADV_HUGEPAGE))
	case 14:
		c.call(unix.SYS_MADVISE, addr, size, unix.MADV_COLLAPSE)
	case 15:
		check(c.call(unix.SYS_MADVISE, addr, size, unix.MADV_POPULATE_WRITE))
	case 16:
		c.call(unix.SYS_MADVISE, addr, size, unix.MADV_PAGEOUT)
	case 17: // into its own memory through the kernel
		c.ownMem(first)
	case 18:
		c.keep = append(c.keep, make([]byte, c.rand.IntN(200_000)))
		if len(c.keep) > 20 {
			c.keep = c.keep[10:]
			runtime.GC()
		}
	}
}

var sink byte

func (c *dirtyChild) fillHole() {
	for first := range c.mapped {
		if c.mapped[first] {
			continue
		}
		n := 0
		for first+n < arenaPages && !c.mapped[first+n] {
			n++
		}
		c.mmap(first, n)
		c.write(first)
		return
	}
}

// move moves pages over others, and sometimes maps the place they came from.
func (c *dirtyChild) move(first, n int, flags uintptr) {
	to := c.rand.IntN(arenaPages - n + 1)
	if to < first+n && first < to+n {
		return
	}
	size := uintptr(n) * PageSize
	if err := c.call(unix.SYS_MREMAP, pageAt(first), size, size, flags, pageAt(to)); err != nil {
		return // more than one mapping
	}
	for i := range n {
		c.mapped[to+i] = true
		c.mapped[first+i] = flags&unix.MREMAP_DONTUNMAP != 0
	}
	if c.rand.IntN(2) == 0 {
		c.mmap(first, n)
	}
	if c.rand.IntN(2) == 0 {
		c.write(to)
	}
}

// fork makes a process that shares the memory until it is written, and does
// nothing.
func (c *dirtyChild) fork() {
	if len(c.forks) > 3 {
		c.endForks()
		return
	}
	if pid := forkAndWait(); pid > 0 {
		c.forks = append(c.forks, pid)
	}
}

// forkAndWait must do in the child nothing that needs a Go runtime.
//
//go:norace
//go:noinline
func forkAndWait() int {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 {
		syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
		for {
			syscall.RawSyscall(unix.SYS_PPOLL, 0, 0, 0)
		}
	}
	return int(pid)
}

func (c *dirtyChild) endForks() {
	for _, pid := range c.forks {
		unix.Kill(pid, unix.SIGKILL)
		unix.Wait4(pid, nil, 0, nil)
	}
	c.forks = nil
}

// kernelWrites lets the kernel write into memory: a read from a pipe.
func (c *dirtyChild) kernelWrites(first, n int) {
	_, err := unix.Write(c.pipe[1], []byte(strconv.Itoa(c.rand.Int())))
	check(err)
	_, err = unix.Read(c.pipe[0], c.page(first+c.rand.IntN(n)))
	check(err)
}

func (c *dirtyChild) ownMem(first int) {
	f, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	check(err)
	defer f.Close()
	_, err = f.WriteAt([]byte{byte(c.rand.Uint32())}, int64(pageAt(first))+int64(c.rand.IntN(PageSize)))
	check(err)
}

// dirtyProgram is the child as the test sees it.
type dirtyProgram struct {
	t     testing.TB
	pid   int
	pidfd int
	in    *os.File
	out   *bufio.Scanner
	uffd  int
	mem   *os.File
}

func startDirtyProgram(t testing.TB) *dirtyProgram {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), dirtyChildVar+"=1", "GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = r
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	p := &dirtyProgram{t: t, pid: cmd.Process.Pid, in: w, out: bufio.NewScanner(out), uffd: -1}
	t.Cleanup(func() {
		w.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	if p.pidfd, err = unix.PidfdOpen(p.pid, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p.pidfd) })
	p.ask("close", p.ask("userfaultfd", 0)) // once it answers, its executable is in place
	if p.mem, err = os.Open(fmt.Sprintf("/proc/%d/mem", p.pid)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.mem.Close() })
	return p
}

// ask has the program do something and returns its answer.
func (p *dirtyProgram) ask(what string, n int) int {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, what, n); err != nil {
		p.t.Fatal(err)
	}
	if !p.out.Scan() {
		p.t.Fatalf("the program ended while asked to %s", what)
	}
	v, err := strconv.Atoi(p.out.Text())
	if err != nil && p.out.Text() != "ok" {
		p.t.Fatalf("%s: %s", what, p.out.Text())
	}
	return v
}

// stop stops all its threads. Unless it is followed already, it has a
// userfaultfd ready then: here the program itself has opened it, beforehand.
func (p *dirtyProgram) stop(followed bool) stopped {
	p.t.Helper()
	if !followed {
		p.uffd = p.ask("userfaultfd", 0)
	}
	if err := unix.Kill(p.pid, unix.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(p.pid, &ws, unix.WUNTRACED, nil); err != nil || !ws.Stopped() {
		p.t.Fatal(ws, err)
	}
	return stopped{pid: p.pid, pidfd: p.pidfd, syscall: func(nr uint64, args ...uint64) (uint64, error) {
		if nr == unix.SYS_USERFAULTFD {
			return uint64(p.uffd), nil
		}
		return 0, nil
	}}
}

func (p *dirtyProgram) resume() {
	if err := unix.Kill(p.pid, unix.SIGCONT); err != nil {
		p.t.Fatal(err)
	}
	if p.uffd >= 0 {
		p.ask("close", p.uffd)
		p.uffd = -1
	}
}
