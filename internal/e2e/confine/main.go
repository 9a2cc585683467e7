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
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/e2e/seccomp"
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
		return seccomp.Deny(unix.SYS_MEMFD_CREATE)
	case "direct":
		return seccomp.Deny(unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV)
	case "fsize":
		return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1024, Max: 1024})
	}
	return errors.New("not known")
}
