package nativetest

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pagemap"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
)

// The test program, started again with this variable, is a program whose memory
// is followed.
const dirtyChildVar = "GORUN_TEST_DIRTY_CHILD"

func init() {
	if v := os.Getenv(dirtyChildVar); v != "" {
		if v == "again" {
			fmt.Println("ok")
		}
		(&dirtyChild{out: os.Stdout}).serve()
		os.Exit(0)
	}
}

// Where the child works: a piece of its address space where nothing else is.
const (
	ArenaStart = uint64(0x6a0000000000)
	arenaPages = 3 * pages.PerWindow
	arenaEnd   = ArenaStart + arenaPages*pages.Size
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
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		n, _ := strconv.Atoi(rest)
		switch word {
		case "userfaultfd":
			fd, _, errno := unix.RawSyscall(unix.SYS_USERFAULTFD, pagemap.FollowFlags, 0, 0)
			check(errnoError(errno))
			fmt.Fprintln(c.out, fd)
		case "close":
			check(unix.Close(n))
			fmt.Fprintln(c.out, "ok")
		case "seed":
			c.rand = rand.New(rand.NewPCG(uint64(n), 7))
			c.mmap(0, arenaPages)
			fmt.Fprintln(c.out, "ok")
		case "do", "quietly": // without processes of its own
			for range n {
				c.something(word == "do")
			}
			fmt.Fprintln(c.out, "ok")
		case "alone":
			c.endForks()
			fmt.Fprintln(c.out, "ok")
		case "exec": // another program in its place
			check(os.Setenv(dirtyChildVar, "again"))
			check(unix.Exec("/proc/self/exe", os.Args, os.Environ()))
		case "reserve": // n MB, readable and writable, and never used
			check(c.call(unix.SYS_MMAP, 0, uintptr(n)<<20, unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE, ^uintptr(0), 0))
			fmt.Fprintln(c.out, "ok")
		case "huge": // n MB in huge pages, if there are any
			mem, err := unix.Mmap(-1, 0, (n+2)<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			check(err)
			mem = mem[-uintptr(unsafe.Pointer(&mem[0]))%(2<<20):][:n<<20]
			check(unix.Madvise(mem, unix.MADV_HUGEPAGE))
			for i := 0; i < len(mem); i += pages.Size {
				mem[i] = 1
			}
			c.keep = append(c.keep, mem)
			fmt.Fprintln(c.out, uintptr(unsafe.Pointer(&mem[0])))
		case "poke": // the n-th page of what was filled last
			c.keep[len(c.keep)-1][n*pages.Size]++
			fmt.Fprintln(c.out, "ok")
		case "droppable":
			const mapDroppable = 8
			p, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, uintptr(n)<<20, unix.PROT_READ|unix.PROT_WRITE, mapDroppable|unix.MAP_ANON, ^uintptr(0), 0)
			if errno != 0 {
				p = 0
			}
			fmt.Fprintln(c.out, p)
		case "fill": // n MB beside the arena
			mem, err := unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			check(err)
			for i := 0; i < len(mem); i += pages.Size {
				mem[i] = 1
			}
			c.keep = append(c.keep, mem)
			fmt.Fprintln(c.out, uintptr(unsafe.Pointer(&mem[0])))
		case "noise": // n MB that are no two alike
			c.rand = rand.New(rand.NewPCG(3, 4))
			mem := make([]byte, n<<20)
			for i := 0; i < len(mem); i += 8 {
				*(*uint64)(unsafe.Pointer(&mem[i])) = c.rand.Uint64()
			}
			c.keep = append(c.keep, mem)
			fmt.Fprintln(c.out, "ok")
		case "busy": // n MB/s of what was filled last are written from now on
			go writeSteadily(c.keep[len(c.keep)-1], n)
			fmt.Fprintln(c.out, "ok")
		case "touch": // every n-th page of what was filled last
			mem := c.keep[len(c.keep)-1]
			for i := 0; i < len(mem); i += n * pages.Size {
				mem[i]++
			}
			fmt.Fprintln(c.out, "ok")
		}
	}
	c.endForks()
}

// writeSteadily writes to so many MB/s of pages here and there.
func writeSteadily(mem []byte, rate int) {
	r := rand.New(rand.NewPCG(5, 6))
	var written float64
	start := time.Now()
	for range time.Tick(time.Millisecond) {
		for due := time.Since(start).Seconds() * float64(rate<<20); written < due; written += pages.Size {
			mem[r.IntN(len(mem)/pages.Size)*pages.Size]++
		}
	}
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

func pageAt(n int) uintptr { return uintptr(ArenaStart) + uintptr(n)*pages.Size }

// page gives the bytes of a page of the arena.
func (c *dirtyChild) page(n int) []byte {
	addr := pageAt(n) // memory that Go does not manage
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), pages.Size)
}

func (c *dirtyChild) call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	return errnoError(errno)
}

func (c *dirtyChild) mmap(first, n int) {
	check(c.call(unix.SYS_MMAP, pageAt(first), uintptr(n)*pages.Size, unix.PROT_READ|unix.PROT_WRITE,
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
	p[c.rand.IntN(pages.Size)] = byte(c.rand.Uint32())
}

// something does one of all the things that change memory or its mappings.
func (c *dirtyChild) something(forks bool) {
	first, n := c.run([]int{1, 8, 100, 900}[c.rand.IntN(4)])
	addr, size := pageAt(first), uintptr(n)*pages.Size
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
			half := size / 2 / pages.Size * pages.Size
			if c.call(unix.SYS_MREMAP, addr, size, half, 0) == nil && c.call(unix.SYS_MREMAP, addr, half, size, 0) != nil {
				c.mmap(first+int(half/pages.Size), n-int(half/pages.Size)) // it was more than one mapping
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
		if forks {
			c.fork()
		}
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
	size := uintptr(n) * pages.Size
	if err := c.call(unix.SYS_MREMAP, pageAt(first), size, size, flags, pageAt(to)); err != nil {
		c.mmap(first, n) // more than one mapping, some of which may have been moved
		c.mmap(to, n)
		return
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
	self, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 {
		syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
		if parent, _, _ := syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0); parent != self { // it was killed before
			syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 1, 0, 0)
		}
		syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, 1<<32-1, 0) // whoever waits for the program's end sees it
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
	_, err = f.WriteAt([]byte{byte(c.rand.Uint32())}, int64(pageAt(first))+int64(c.rand.IntN(pages.Size)))
	check(err)
}
