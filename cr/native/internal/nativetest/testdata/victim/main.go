// Command victim is what the tests of package native image: it does what its
// arguments say, writes "ready", and answers each line of its input with a line.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

var spun atomic.Uint64

func main() {
	for _, what := range os.Args[1:] {
		do, ok := deeds[what]
		if !ok {
			n, err := strconv.Atoi(what)
			if err != nil {
				fail(fmt.Errorf("what is %s", what))
			}
			touch(n)
			continue
		}
		do()
	}
	serve()
}

// serve answers, for as long as there is input.
func serve() {
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if pid, ok := strings.CutPrefix(in.Text(), "debug "); ok {
			attach(pid)
			continue
		}
		answer(in.Text())
	}
}

// attach attaches to a process, as a debugger does, until this one ends.
func attach(pid string) {
	runtime.LockOSThread()
	n, err := strconv.Atoi(pid)
	fail(err)
	const seize = 0x4206
	if _, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, seize, uintptr(n), 0, 0, 0, 0); errno != 0 {
		fail(errno)
	}
	fmt.Println("attached")
}

// debugged lets any process attach to this one.
func debugged() {
	const setPtracer, anyone = 0x59616d61, ^uintptr(0)
	syscall.RawSyscall(syscall.SYS_PRCTL, setPtracer, anyone, 0) // EINVAL: nobody is kept from it
}

func fail(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// answer proves that the program still works: it runs a collection, starts
// goroutines and looks at the spinning ones.
func answer(line string) {
	guarded()
	runtime.GC()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { time.Sleep(time.Millisecond) })
	}
	wg.Wait()
	fmt.Println(line, spun.Load(), checkMemory())
}

var deeds = map[string]func(){
	"spin":     func() { go spin() },
	"churn":    func() { go churn() },
	"many":     many,
	"child":    child,
	"zombie":   zombie,
	"readonly": readonly,
	"deleted":  deleted,
	"log":      logfile,
	"pipe":     pipe,
	"modest":   modest,
	"placed":   placed,
	"count":    func() { go count() },
	"events":   events,
	"inotify":  inotify,
	"memfd":    func() { share("numbers", 1<<30) },
	"shm":      func() { share("gorun-shm", 1<<30) },
	"rings":    func() { share("gorun-device", 1<<20); share("gorun-device", 1<<20) },
	"peer":     peer,
	"sysv":     sysv,
	"filemap":  filemap,
	"seccomp":  seccomp,
	"private":  private,
	"guard":    guard,
	"maps":     mappings,
	"locked":   locked,
	"parent":   func() { openProc(fmt.Sprint("/proc/", os.Getppid())) },
	"thread":   thread,
	"bounded":  bounded,
	"rooted":   rooted,
	"other":    other,
	"named":    named,
	"fixed":    fixed,
	"apart":    apart,
	"dontfork": dontfork,
	"threads":  threads,
	"births":   func() { go births() },
	"headless": headless,
	"dirty":    func() { go dirtyAll() },
	"debugged": debugged,
}

// spin is a loop without calls, which only a signal can interrupt.
func spin() {
	for {
		spun.Add(1)
	}
}

// churn makes garbage and asks for the time, which runs in the vdso.
func churn() {
	var keep [64][]byte
	for i := 0; ; i++ {
		keep[i%len(keep)] = make([]byte, 10_000)
		if time.Now().IsZero() {
			return
		}
	}
}

var memory []uint64

// touch fills n megabytes.
func touch(n int) {
	memory = make([]uint64, n<<17)
	for i := range memory {
		memory[i] = uint64(i)*2654435761 + 1
	}
}

func checkMemory() string {
	for i := 0; i < len(memory); i += 511 {
		if memory[i] != uint64(i)*2654435761+1 {
			return "damaged"
		}
	}
	return "whole"
}

// dirtyAll writes to all memory again and again, without changing it.
func dirtyAll() {
	for {
		for i := 0; i < len(memory); i += 512 {
			memory[i] = uint64(i)*2654435761 + 1
		}
	}
}

// many makes ten thousand goroutines that wait.
func many() {
	for range 10_000 {
		go func() { select {} }()
	}
}

// threads makes twenty threads that stand in system calls.
func threads() {
	var running sync.WaitGroup
	for range 20 {
		r, w, err := os.Pipe()
		fail(err)
		keep = append(keep, w)
		fd := int(r.Fd()) // blocking
		running.Add(1)
		go func() {
			runtime.LockOSThread()
			running.Done()
			syscall.Read(fd, make([]byte, 1))
			runtime.KeepAlive(r)
		}()
	}
	running.Wait()
}

// births makes threads and ends them, without end.
func births() {
	for {
		done := make(chan bool)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends
			close(done)
		}()
		<-done
	}
}

// The first thread is that of main if it is to end.
func init() {
	if os.Args[len(os.Args)-1] == "headless" {
		runtime.LockOSThread()
	}
}

// headless goes on without the first thread.
func headless() {
	go func() {
		serve()
		os.Exit(0)
	}()
	syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

func child() {
	c := exec.Command("sleep", "1000")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	fail(c.Start())
}

func zombie() {
	c := exec.Command("true")
	fail(c.Start())
	// Wait for its end, and leave it there (P_PID, WEXITED|WNOWAIT).
	syscallFD(syscall.Syscall6(syscall.SYS_WAITID, 1, uintptr(c.Process.Pid), 0, 0x1000004, 0, 0))
}

func readonly() {
	f, err := os.Open(os.Args[0])
	fail(err)
	_, err = syscall.Mmap(int(f.Fd()), 0, 8192, syscall.PROT_READ, syscall.MAP_SHARED)
	fail(err)
	fail(f.Close())
}

var keep []*os.File

func deleted() {
	f, err := os.CreateTemp("", "deleted")
	fail(err)
	f.WriteString("no name, but content")
	fail(os.Remove(f.Name()))
	keep = append(keep, f)
}

func logfile() {
	f, err := os.CreateTemp("", "log")
	fail(err)
	f.WriteString("twelve bytes")
	keep = append(keep, f)
}

// count says how far it has come, all the time.
func count() {
	for i := 0; ; i++ {
		fmt.Println("count", i)
		time.Sleep(time.Millisecond)
	}
}

// modest asks for less than it could have.
func modest() {
	fail(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 100, Max: 200}))
	fail(syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}))
	// A thread that is locked makes no others, which would inherit it.
	onThread(func() {
		now, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		fail(err)
		fail(syscall.Setpriority(syscall.PRIO_PROCESS, 0, 20-now+7)) // the kernel tells 20 less the priority
	})
	const noNewPrivs = 38
	_, _, e := syscall.AllThreadsSyscall(syscall.SYS_PRCTL, noNewPrivs, 1, 0)
	if e != 0 {
		fail(e)
	}
}

// placed binds a thread to a processor, adopts orphans, registers for membarrier and
// is to be ended first when memory runs short.
func placed() {
	const setSubreaper, membarrier, registerPrivate = 36, 324, 1 << 4
	onThread(func() {
		first := uint64(1)
		syscallFD(syscall.Syscall(syscall.SYS_SCHED_SETAFFINITY, 0, 8, uintptr(unsafe.Pointer(&first))))
	})
	syscallFD(syscall.Syscall(syscall.SYS_PRCTL, setSubreaper, 1, 0))
	syscallFD(syscall.Syscall(membarrier, registerPrivate, 0, 0))
	fail(os.WriteFile("/proc/self/oom_score_adj", []byte("777"), 0))
}

func pipe() {
	r, w, err := os.Pipe()
	fail(err)
	w.WriteString("in the pipe")
	keep = append(keep, r, w)
}

func syscallFD(r1, _ uintptr, e syscall.Errno) int {
	if e != 0 {
		fail(e)
	}
	return int(r1)
}

// events makes an eventfd with a count, a timerfd, an epoll set with both, and
// a second descriptor of the eventfd.
func events() {
	ev := syscallFD(syscall.Syscall(syscall.SYS_EVENTFD2, 5, 0, 0))
	tm := syscallFD(syscall.Syscall(syscall.SYS_TIMERFD_CREATE, 1, 0, 0))
	spec := [4]int64{0, 0, 1000, 5}
	syscallFD(syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(tm), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0))
	ep, err := syscall.EpollCreate1(0)
	fail(err)
	fail(syscall.EpollCtl(ep, syscall.EPOLL_CTL_ADD, ev, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: 77}))
	fail(syscall.EpollCtl(ep, syscall.EPOLL_CTL_ADD, tm, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: 78}))
	_, err = syscall.Dup(ev)
	fail(err)
}

func inotify() {
	fd, err := syscall.InotifyInit()
	fail(err)
	_, err = syscall.InotifyAddWatch(fd, os.DevNull, syscall.IN_OPEN)
	fail(err)
	_, err = os.ReadFile(os.DevNull) // an event that nobody reads
	fail(err)
}

func dontfork() {
	p, err := syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	fail(err)
	fail(syscall.Madvise(p, 10))
}

// share makes shared memory of that name, and keeps its descriptor.
func share(name string, size int) {
	const memfdCreate = 319
	p := append([]byte(name), 0)
	fd := syscallFD(syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(&p[0])), 0, 0))
	fail(syscall.Ftruncate(fd, int64(size)))
	mapShared(fd, size)
}

// mapShared maps memory and writes to some of it.
func mapShared(fd, size int) {
	m, err := syscall.Mmap(fd, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	fail(err)
	for i := 0; i < len(m); i += len(m) / 8 {
		m[i] = 7
	}
}

// peer maps the memory gorun-shm of the process that has started this one.
func peer() {
	dir := fmt.Sprintf("/proc/%d/fd", os.Getppid())
	fds, err := os.ReadDir(dir)
	fail(err)
	for _, fd := range fds {
		path := dir + "/" + fd.Name()
		if name, _ := os.Readlink(path); strings.HasPrefix(name, "/memfd:gorun-shm") {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			fail(err)
			mapShared(int(f.Fd()), 8192)
			fail(f.Close())
			return
		}
	}
	fail(errors.New("the parent has no such memory"))
}

func sysv() {
	const create, remove = 0o1600, 0
	id := syscallFD(syscall.Syscall(syscall.SYS_SHMGET, 0, 8192, create))
	syscallFD(syscall.Syscall(syscall.SYS_SHMAT, uintptr(id), 0, 0))
	syscallFD(syscall.Syscall(syscall.SYS_SHMCTL, uintptr(id), remove, 0))
}

func filemap() {
	f, err := os.CreateTemp("", "map")
	fail(err)
	fail(f.Truncate(8192))
	_, err = syscall.Mmap(int(f.Fd()), 0, 8192, syscall.PROT_READ, syscall.MAP_SHARED) // could be made writable
	fail(err)
	fail(f.Close())
}

// seccomp installs a filter that lets everything pass, for all threads.
func seccomp() {
	const noNewPrivs, setModeFilter, sync, nr = 38, 1, 1, 317
	allow := uint64(0x7fff0000)<<32 | 0x06 // BPF_RET
	program := struct {
		n      uint64
		filter *uint64
	}{1, &allow}
	if _, _, e := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, noNewPrivs, 1, 0, 0, 0, 0); e != 0 {
		fail(e)
	}
	syscallFD(syscall.Syscall(nr, setModeFilter, sync, uintptr(unsafe.Pointer(&program))))
}

// private forbids others to look at the process.
func private() { syscallFD(syscall.Syscall(syscall.SYS_PRCTL, 4, 0, 0)) }

// bounded gives up a capability for good.
func bounded() {
	const dropBounding, chown = 24, 0
	if _, _, e := syscall.AllThreadsSyscall(syscall.SYS_PRCTL, dropBounding, chown, 0); e != 0 {
		fail(e)
	}
}

// rooted has another root folder.
func rooted() { fail(syscall.Chroot(os.TempDir())) }

// other is another group, and can be looked at nevertheless.
func other() {
	fail(syscall.Setresgid(65534, 65534, 65534))
	syscallFD(syscall.Syscall(syscall.SYS_PRCTL, 4, 1, 0))
}

// named has one thread with a host name of its own.
func named() { onThread(func() { fail(syscall.Unshare(syscall.CLONE_NEWUTS)) }) }

// fixed has set a securebit, as long as which capabilities do not come back.
func fixed() {
	const setSecureBits, noSetuidFixup = 28, 4
	if _, _, e := syscall.AllThreadsSyscall(syscall.SYS_PRCTL, setSecureBits, noSetuidFixup, 0); e != 0 {
		fail(e)
	}
}

// apart has one thread with a working directory of its own.
func apart() { onThread(func() { fail(syscall.Unshare(syscall.CLONE_FS)) }) }

// onThread does f on a thread that lives on.
func onThread(f func()) {
	done := make(chan bool)
	go func() {
		runtime.LockOSThread()
		f()
		close(done)
		select {}
	}()
	<-done
}

// guard makes guard pages in memory that was written to, and in some that was not, and
// says how it finds them when there is input.
func guard() {
	const install = 102
	var all [2][]byte
	for i := range all {
		p, err := syscall.Mmap(-1, 0, 64<<10, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		fail(err)
		all[i] = p
	}
	for i := range all[0] {
		all[0][i] = byte(i / 4096)
	}
	for _, p := range all {
		if err := syscall.Madvise(p[4096:3*4096], install); err == syscall.EINVAL {
			fmt.Println("no guard pages here")
			return
		} else {
			fail(err)
		}
	}
	guarded = func() {
		debug.SetPanicOnFault(true)
		for i, p := range all {
			for at := 0; at < len(p); at += 4096 {
				v, faults := peek(&p[at])
				if want := byte(at / 4096 * (1 - i)); faults != (at == 4096 || at == 2*4096) || !faults && v != want {
					fail(fmt.Errorf("page %d of memory %d: %d, fault %v", at/4096, i, v, faults))
				}
			}
		}
	}
}

var guarded = func() {}

func peek(p *byte) (v byte, faults bool) {
	defer func() { faults = recover() != nil }()
	return *p, false
}

// openProc keeps a file of a process, or of a thread, open.
func openProc(dir string) {
	f, err := os.Open(dir + "/stat")
	fail(err)
	keep = append(keep, f)
}

// thread does that with a thread that is not the first.
func thread() {
	tasks, err := os.ReadDir("/proc/self/task")
	fail(err)
	for _, t := range tasks {
		if t.Name() != strconv.Itoa(os.Getpid()) {
			openProc("/proc/self/task/" + t.Name())
			return
		}
	}
	fail(errors.New("there is one thread only"))
}

// locked locks memory, some at once and some when it is touched.
func locked() {
	const mlock2, onFault = 325, 1
	for flags := range uintptr(2) {
		p, err := syscall.Mmap(-1, 0, 64<<10, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		fail(err)
		p[4096*flags] = 1
		_, _, e := syscall.Syscall(mlock2, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), flags*onFault)
		if e != 0 && e != syscall.ENOMEM && e != syscall.EPERM {
			fail(e)
		}
	}
}

// mappings makes ten thousand.
func mappings() {
	const n = 10_000
	p, err := syscall.Mmap(-1, 0, n*4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	fail(err)
	for i := range n {
		p[i*4096] = byte(i)
		if i%2 == 0 {
			fail(syscall.Mprotect(p[i*4096:(i+1)*4096], syscall.PROT_READ))
		}
	}
}
