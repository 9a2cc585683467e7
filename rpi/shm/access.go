package shm

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// access is whether this rank may copy from and to the memory of a peer's process. A kernel, a
// container or a policy may forbid it, from the start or at any time later: a program may confine
// itself after it has read its input.
type access uint8

const (
	untried access = iota
	granted
	denied
)

// trusted reports whether this rank has access to the peer's memory. It tries once.
func (m *Module) trusted(peer int) bool {
	p := &m.peers[peer]
	if p.access == untried && m.join(peer) {
		p.access = granted
		m.try(peer)
	}
	return p.access == granted && !p.down
}

// try finds out whether both calls are allowed, as a filter may forbid either, and whether the
// mark can be read.
func (m *Module) try(peer int) {
	p, d := &m.peers[peer], &m.direct
	for _, trap := range []uintptr{unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV} {
		if _, errno := processVM(trap, p.addr.pid, &d.local, &d.remote, 0); errno != 0 {
			m.deny(peer, trap, errno)
			return
		}
	}
	if !m.marked(peer) {
		p.access = denied
	}
}

// marked reports whether the peer's process is there, and is the one whose segment is mapped.
func (m *Module) marked(peer int) bool {
	d := &m.direct
	return m.transfer(unix.SYS_PROCESS_VM_READV, peer, m.peers[peer].base, d.mark[:], false) &&
		bytes.Equal(d.mark[:], m.peers[peer].ctl.mem[:markSize])
}

// forbidden reports whether an error says that something is not allowed, and not that the process
// or its memory is gone.
func forbidden(errno syscall.Errno) bool {
	return errno == unix.EPERM || errno == unix.EACCES || errno == unix.ENOSYS
}

// deny records that this rank has no access to the peer's memory. It reports that if
// parameter shm.direct asked for the access.
func (m *Module) deny(peer int, trap uintptr, errno syscall.Errno) {
	p := &m.peers[peer]
	if p.access == denied {
		return
	}
	p.access = denied
	if m.params.direct <= 0 || m.env.Denied == nil {
		return
	}
	call := "process_vm_readv"
	if trap == unix.SYS_PROCESS_VM_WRITEV {
		call = "process_vm_writev"
	}
	m.env.Denied(peer, fmt.Errorf("shm.direct: %s: %w; %s, or leave the parameter out: messages go through shared memory", call, errno, m.remedy(peer, trap, errno)))
}

// remedy says what to do about a call that is denied. A call without anything to copy succeeds if
// only the peer's process is closed to this one.
func (m *Module) remedy(peer int, trap uintptr, errno syscall.Errno) string {
	_, alone := processVM(trap, m.peers[peer].addr.pid, &m.direct.local, &m.direct.remote, 0)
	mode := yama()
	switch {
	case errno == unix.ENOSYS:
		return "run it on a kernel with CONFIG_CROSS_MEMORY_ATTACH"
	case alone != 0:
		return "let the filter of system calls (seccomp) allow it, as that of a container or of the program itself"
	case mode != "" && mode != "0" && mode != "1":
		return "set /proc/sys/kernel/yama/ptrace_scope to 1 or 0, it is " + mode
	}
	return "let the ranks look into each other's memory (PR_SET_DUMPABLE, one user, no further capabilities)"
}

// allow gives the other ranks access to this process's memory where Linux asks for leave (Yama in
// mode 1). The leave is for all processes of the user, as it is without Yama: it is not known yet
// which processes will be the ranks.
func allow() {
	if yama() == "1" {
		_ = unix.Prctl(unix.PR_SET_PTRACER, unix.PR_SET_PTRACER_ANY, 0, 0, 0)
	}
}

// yama returns the mode of Yama, "" if there is none.
func yama() string {
	mode, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(mode))
}
