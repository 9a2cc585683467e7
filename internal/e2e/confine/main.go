// Confine runs a program that the kernel denies something to:
//
//	confine [-claim FILE] WHAT PROGRAM [args]
//
// WHAT is memfd (memory to be shared), direct (copies from process to process) or
// fsize (files, and what counts as such, of more than 1 KB). With -claim only the
// first process that creates FILE is confined, others run as they are.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	claim := flag.String("claim", "", "`file` that one process creates")
	flag.Parse()
	err := errors.New("usage: confine [-claim FILE] memfd|direct|fsize PROGRAM [args]")
	if flag.NArg() > 1 {
		err = run(*claim, flag.Arg(0), flag.Args()[1:])
	}
	fmt.Fprintln(os.Stderr, "confine:", err)
	os.Exit(1)
}

func run(claim, what string, program []string) error {
	runtime.LockOSThread() // a filter is a thread's, and that of the one that executes stays
	mine := true
	if claim != "" {
		f, err := os.OpenFile(claim, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		f.Close()
		mine = err == nil
	}
	if mine {
		if err := confine(what); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return syscall.Exec(program[0], program, os.Environ())
}

func confine(what string) error {
	switch what {
	case "memfd":
		return deny(unix.SYS_MEMFD_CREATE)
	case "direct":
		return deny(unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV)
	case "fsize":
		return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1024, Max: 1024})
	}
	return errors.New("not known")
}

// deny makes system calls fail with EPERM.
func deny(calls ...uint32) error {
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // the call's number
	for i, nr := range calls {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jt: uint8(len(calls) - i)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
}
