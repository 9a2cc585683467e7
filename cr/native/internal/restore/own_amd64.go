//go:build linux

package restore

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// openOwn makes the process open the files in /proc that are its own. At their
// numbers it has /dev/null until then.
func (r *restore) openOwn() error {
	for i := range r.state.Files {
		f := &r.state.Files[i]
		name := ownProcFile(r.state, f)
		if name == "" {
			continue
		}
		fail := func(err error) error {
			return fileError(f.Path, "close it while checkpoints are taken", "opening %s: %w", name, err)
		}
		if f.Same != f.FD {
			if err := r.puppet.run(r.pid, []call{dupCall(f.Same, f)}); err != nil {
				return fail(err)
			}
			continue
		}
		fd := -1
		err := r.puppet.run(r.pid, []call{{what: "open", nr: unix.SYS_OPEN, args: [6]uint64{0, uint64(openFlags(f.Flags))},
			data: append([]byte(name), 0), done: func(n uint64) { fd = int(n) }}})
		if err == nil {
			err = r.puppet.run(r.pid, []call{
				dupCall(fd, f),
				{what: "close", nr: unix.SYS_CLOSE, args: [6]uint64{uint64(fd)}},
				{what: "offset", nr: unix.SYS_LSEEK, args: [6]uint64{uint64(f.FD), uint64(f.Offset), unix.SEEK_SET}, may: f.Flags&unix.O_PATH != 0},
			})
		}
		if err != nil {
			return fail(err)
		}
	}
	return nil
}

// dupCall puts what is open as fd where f belongs.
func dupCall(fd int, f *state.File) call {
	return call{what: fmt.Sprintf("descriptor %d", f.FD), nr: unix.SYS_DUP3,
		args: [6]uint64{uint64(fd), uint64(f.FD), uint64(f.Flags & unix.O_CLOEXEC)}}
}
