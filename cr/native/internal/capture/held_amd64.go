package capture

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// What a descriptor holds beyond what it is: locks, who is sent signals, seals, and of an
// epoll set, what its watched numbers stand for.

// recordHeld notes locks, owner, seals, and the room of a pipe.
func (st *stand) recordHeld(f *state.File, in *proc.FDInfo) error {
	if f.Kind == state.FileStdio || f.Kind == state.FileOOB {
		return nil // the launcher's
	}
	for _, l := range in.Locks {
		switch {
		case l.Class == proc.LockPOSIX, (l.Class == proc.LockFlock || l.Class == proc.LockOFD) && f.First():
			f.Locks = append(f.Locks, l)
		case l.Class != proc.LockFlock && l.Class != proc.LockOFD:
			return refusal.New("give it up while checkpoints are taken", "a lease on %s", f.Path)
		}
	}
	memory := f.Kind == state.FileRegular && f.Deleted && f.First()
	pipe := f.Kind == state.FilePipe && f.First()
	if f.Flags&unix.O_ASYNC == 0 && !memory && !pipe {
		return nil
	}
	fd, err := st.g.Getfd(f.FD)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if memory {
		f.Seals, err = unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		if err != nil { // a file, which has none
			f.Seals = 0
		}
	}
	if pipe {
		if f.Room, err = unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err != nil {
			return err
		}
	}
	if f.Flags&unix.O_ASYNC == 0 || !f.First() {
		return nil
	}
	f.Owner, err = st.ownerOf(fd)
	return err
}

// ownerOf asks who gets signals about an open file.
func (st *stand) ownerOf(fd int) (*state.Owner, error) {
	const getOwnEx, getSig, group = 16, 11, 2 // F_GETOWN_EX, F_GETSIG, F_OWNER_PGRP
	var p [2]int32
	if _, _, e := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), getOwnEx, uintptr(unsafe.Pointer(&p))); e != 0 {
		return nil, e
	}
	if p[1] == 0 {
		return nil, nil
	}
	if p[0] == group || !slices.Contains(st.TIDs, int(p[1])) {
		return nil, refusal.New("use poll", "a descriptor about which another process gets signals (%d)", p[1])
	}
	sig, err := unix.FcntlInt(uintptr(fd), getSig, 0)
	return &state.Owner{Type: int(p[0]), ID: st.g.idOf(int(p[1])), Signal: sig}, err
}

// recordWatches finds what epoll sets watch by numbers that are closed, or something else,
// by now: the set has the open file, as long as any process has it.
func (st *stand) recordWatches(r *recorder) error {
	files := r.state.Files
	for i := range files {
		f := &files[i]
		if f.Kind != state.FileEpoll || !f.First() {
			continue
		}
		times := map[int]uint32{} // how often a number was among the watches
		for j := range f.Epoll {
			w := &f.Epoll[j]
			nth := times[w.FD]
			times[w.FD]++
			if is, known := st.watched(w.FD, f.FD, w.FD, nth); is || !known {
				continue
			}
			k := slices.IndexFunc(files, func(o state.File) bool {
				is, _ := st.watched(o.FD, f.FD, w.FD, nth)
				return is
			})
			if k < 0 {
				return refusal.New("remove it from the set before it is closed",
					"the epoll set %d watches a file by the number %d, which the process has no more", f.FD, w.FD)
			}
			w.As = &files[k].FD
		}
	}
	return nil
}

// watched tells whether fd is what the set watches as the nth of a number. Not every
// kernel knows.
func (st *stand) watched(fd, set, number int, nth uint32) (is, known bool) {
	const epollTarget = 7 // KCMP_EPOLL_TFD
	slot := [3]uint32{uint32(set), uint32(number), nth}
	r, _, e := unix.RawSyscall6(unix.SYS_KCMP, uintptr(st.g.PID), uintptr(st.g.PID), epollTarget, uintptr(fd), uintptr(unsafe.Pointer(&slot)), 0)
	switch e {
	case 0:
		return r == 0, true
	case unix.EBADF:
		return false, true
	}
	return false, false
}
