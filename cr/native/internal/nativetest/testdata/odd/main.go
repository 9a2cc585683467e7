// Command odd does what few programs do: each argument is a thing that it has
// going, says how it went on, and ends with its input.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

func main() {
	for _, what := range os.Args[1:] {
		switch what {
		case "net":
			network()
		case "pending":
			pending()
		case "redirect":
			redirect()
		case "proc":
			proc()
		}
	}
	fmt.Println("ready")
	var p [1]byte
	for {
		if n, err := os.Stdin.Read(p[:]); n == 0 || err != nil {
			return
		}
		close(input)
	}
}

// input is closed when there is any.
var input = make(chan bool)

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// network has a listener, a connection and a datagram socket, each with a
// goroutine that waits for something. When the connection has ended, it calls the others.
func network() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	c, err := net.Dial("tcp", l.Addr().String())
	check(err)
	s, err := l.Accept()
	check(err)
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(err)
	go func() {
		c, err := l.Accept()
		check(err)
		p, err := io.ReadAll(c)
		fmt.Println("again:", string(p), err)
	}()
	go func() {
		n, err := c.Read(make([]byte, 10))
		fmt.Println("read:", n, err)
		n, err = s.Write(make([]byte, 10))
		fmt.Println("write:", n, err)
		for network, address := range map[string]string{"tcp": l.Addr().String(), "udp": u.LocalAddr().String()} {
			c, err := net.Dial(network, address)
			check(err)
			c.Write([]byte("hello"))
			c.Close()
		}
	}()
	go func() {
		n, _, err := u.ReadFrom(make([]byte, 10))
		fmt.Println("datagram:", n, err)
	}()
}

// redirect puts a file in the place of standard error, which then is elsewhere.
func redirect() {
	f, err := os.Create("errors")
	check(err)
	kept, err := syscall.Dup(2)
	check(err)
	check(syscall.Dup2(int(f.Fd()), 2))
	check(f.Close())
	go func() {
		<-input
		fmt.Fprintln(os.Stderr, "to the file")
		syscall.Write(kept, []byte("to the launcher\n"))
	}()
}

// pending holds back a signal on one thread and sends it to that thread, and
// lets it come when there is input.
func pending() {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGUSR2)
	sent := make(chan bool)
	var p [1]byte
	r, w, err := os.Pipe()
	check(err)
	go func() {
		runtime.LockOSThread()
		mask := uint64(1 << (syscall.SIGUSR2 - 1))
		sigmask(0, mask)
		_, _, e := syscall.Syscall(syscall.SYS_TGKILL, uintptr(syscall.Getpid()), uintptr(syscall.Gettid()), uintptr(syscall.SIGUSR2))
		if e != 0 {
			check(e)
		}
		close(sent)
		syscall.Read(int(r.Fd()), p[:])
		sigmask(1, mask)
	}()
	<-sent
	go func() {
		<-input
		select {
		case <-got:
			fmt.Println("failed: the signal came early")
		default:
		}
		w.Write(p[:])
		fmt.Println("signal:", <-got)
	}()
}

func sigmask(how int, mask uint64) {
	_, _, e := syscall.Syscall6(syscall.SYS_RT_SIGPROCMASK, uintptr(how), uintptr(unsafe.Pointer(&mask)), 0, 8, 0, 0)
	if e != 0 {
		check(e)
	}
}

// proc has files of its own in /proc open, one of them in the middle and twice.
func proc() {
	open := func(name string) *os.File {
		f, err := os.Open(name)
		check(err)
		return f
	}
	stat, dir, thread := open("/proc/self/stat"), open("/proc/self"), open(fmt.Sprintf("/proc/self/task/%d/stat", os.Getpid()))
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	check(err)
	_, err = stat.Seek(2, io.SeekStart)
	check(err)
	twin, err := syscall.Dup(int(stat.Fd()))
	check(err)
	go func() {
		<-input
		var p [8]byte
		n, err := stat.Seek(0, io.SeekCurrent)
		check(err)
		m, err := syscall.Seek(twin, 3, io.SeekStart)
		check(err)
		k, err := stat.Seek(0, io.SeekCurrent)
		check(err)
		fmt.Println("offsets:", n, m, k)
		mine := fmt.Sprint(os.Getpid())
		for _, f := range []*os.File{stat, thread} {
			text, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
			check(err)
			fmt.Println("own:", strings.HasPrefix(string(text), mine+" "))
		}
		_, err = dir.ReadAt(p[:], 0) // a folder
		names, err2 := dir.Readdirnames(-1)
		fmt.Println("folder:", err, len(names) > 10, err2)
		x := new(uint64)
		_, err = memory.WriteAt([]byte{7}, int64(uintptr(unsafe.Pointer(x))))
		fmt.Println("memory:", err, *x)
	}()
}
