package restore

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// watchCalls puts what they watch into epoll sets, by the numbers that it had then: what
// has one of them now makes room for a moment.
func (r *restore) watchCalls() []call {
	var calls []call
	open := make(map[int]*state.File)
	for i := range r.state.Files {
		open[r.state.Files[i].FD] = &r.state.Files[i]
	}
	for i := range r.state.Files {
		f := &r.state.Files[i]
		if f.Kind != state.FileEpoll || !f.First() {
			continue
		}
		for _, w := range f.Epoll {
			now := open[w.FD]
			what := fmt.Sprintf("descriptor %d in the epoll set %d", w.FD, f.FD)
			p := le.AppendUint64(le.AppendUint32(nil, w.Events), w.Data)
			add := call{what: what, nr: unix.SYS_EPOLL_CTL, args: [6]uint64{uint64(f.FD), unix.EPOLL_CTL_ADD, uint64(w.FD)}, data: p, at: 3}
			switch {
			case w.As != nil:
				calls = append(calls, r.insteadOf(now, w.FD, *w.As, add)...)
			case now != nil:
				add.may = now.Kind == state.FileStdio // it may be a file now, which is always ready
				calls = append(calls, add)
			}
		}
	}
	return calls
}

// insteadOf makes a call while number is what the process has as fd.
func (r *restore) insteadOf(now *state.File, number, fd int, do call) []call {
	aside := uint64(r.base) // free: all from there on is closed
	put := func(from, to uint64, flags int) call {
		return call{what: do.what, nr: unix.SYS_DUP3, args: [6]uint64{from, to, uint64(flags)}}
	}
	shut := func(fd uint64) call { return call{what: do.what, nr: unix.SYS_CLOSE, args: [6]uint64{fd}} }
	n := uint64(number)
	if now == nil {
		return []call{put(uint64(fd), n, 0), do, shut(n)}
	}
	return []call{put(n, aside, 0), put(uint64(fd), n, 0), do, put(aside, n, now.Flags&unix.O_CLOEXEC), shut(aside)}
}

// hold takes the locks that the process held, and says who gets signals about what. A lock
// that another process holds by now ends the restore.
func (r *restore) hold() error {
	for i := range r.state.Files {
		f := &r.state.Files[i]
		var calls []call
		for _, l := range f.Locks {
			calls = append(calls, lockCall(f, l))
		}
		if err := r.puppet.run(r.pid, calls); err != nil {
			return fileError(f.Path, "end who holds it", "%w", err)
		}
		if f.Owner == nil {
			continue
		}
		const setSig = 10
		calls = []call{r.ownerCall(f),
			{what: "owner", nr: unix.SYS_FCNTL, args: [6]uint64{uint64(f.FD), setSig, uint64(f.Owner.Signal)}},
			{what: "owner", nr: unix.SYS_FCNTL, args: [6]uint64{uint64(f.FD), unix.F_SETFL, uint64(f.Flags &^ unix.O_CLOEXEC)}}}
		if err := r.puppet.run(r.pid, calls); err != nil {
			return err
		}
	}
	return nil
}

// lockCall takes one lock.
func lockCall(f *state.File, l proc.Lock) call {
	c := call{what: "a lock", nr: unix.SYS_FCNTL, args: [6]uint64{uint64(f.FD), unix.F_SETLK}}
	kind := uint16(unix.F_RDLCK)
	if l.Write {
		kind = unix.F_WRLCK
	}
	switch l.Class {
	case proc.LockFlock:
		how := uint64(unix.LOCK_SH)
		if l.Write {
			how = unix.LOCK_EX
		}
		return call{what: "a lock", nr: unix.SYS_FLOCK, args: [6]uint64{uint64(f.FD), how | unix.LOCK_NB}}
	case proc.LockOFD:
		c.args[1] = unix.F_OFD_SETLK
	}
	var length int64 // 0: to the end
	if l.End >= 0 {
		length = l.End - l.Start + 1
	}
	p := le.AppendUint16(nil, kind)
	p = append(p, make([]byte, 6)...) // from the beginning of the file
	p = le.AppendUint64(le.AppendUint64(p, uint64(l.Start)), uint64(length))
	c.data, c.at = append(p, make([]byte, 8)...), 2
	return c
}

// ownerCall says to whom signals about a file go.
func (r *restore) ownerCall(f *state.File) call {
	const setOwnEx = 15
	id := r.pid
	if i := slices.IndexFunc(r.state.Threads, func(t state.Thread) bool { return t.TID == f.Owner.ID }); i >= 0 && i < len(r.tids) {
		id = r.tids[i]
	}
	return call{what: "owner", nr: unix.SYS_FCNTL, args: [6]uint64{uint64(f.FD), setOwnEx},
		data: le.AppendUint32(le.AppendUint32(nil, uint32(f.Owner.Type)), uint32(r.puppet.idOf(id))), at: 2}
}
