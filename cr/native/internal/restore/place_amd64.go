//go:build linux

package restore

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// Processes get the ids that they had in a trace.Place. All that an agent restores are in
// one, so that they can share memory; one whose ids are taken there, or that joins
// others that run already, is in one of its own.
//
// Within the place numbers are the old ones, here they are others. What a process does for
// us takes the old ones: they are called ids here. What we do to it takes the others.

// findPlace finds a place for the process, if it is to have one.
func (r *restore) findPlace(t *trace.Threads) error {
	how := r.o.Params[ParamIDs]
	if err := CheckIDs(how); err != nil {
		return err
	}
	if r.isFamily() {
		return r.findPlaceOfAll(t, how)
	}
	must := how == idsSame || r.special() != ""
	if how == idsNew && must {
		return fmt.Errorf("-param %s=%s: it had %s, which need namespaces (use %s)", ParamIDs, idsNew, r.special(), idsAuto)
	}
	if how == idsNew || !must && runtimes.Of(r.program).C == nil {
		return nil
	}
	if r.gone.path != "" { // nothing could enter it again
		r.noPlace = errors.New("its working directory was deleted")
		if must {
			return r.needsPlace(r.noPlace)
		}
		return nil
	}
	p, err := t.Place(r.ids, r.o.Files == whole.FilesStand)
	switch {
	case err == nil:
		r.place, r.threads = p, t
	case must:
		return r.needsPlace(err)
	default:
		r.noPlace = err
	}
	return nil
}

// spaces are those that the family has for itself.
func (r *restore) spaces() trace.Spaces {
	return trace.Spaces{SysV: len(r.state.SysV) > 0, Terminals: len(r.state.Terminals) > 0}
}

// special says what they are for.
func (r *restore) special() string {
	switch own := r.spaces(); {
	case own.SysV && own.Terminals:
		return "pieces of System V shared memory and pseudo-terminals"
	case own.SysV:
		return "pieces of System V shared memory"
	case own.Terminals:
		return "pseudo-terminals"
	}
	return ""
}

// needsPlace says why there is no restore without a place.
func (r *restore) needsPlace(err error) error {
	if what := r.special(); what != "" {
		return fmt.Errorf("it had %s: %w", what, err)
	}
	return fmt.Errorf("%w (-param %s=%s, or %s, does without them)", err, ParamIDs, idsNew, idsAuto)
}

// leavePlace gives up the place, because of err, for new ids: true if that is permitted, and
// not all threads had been made. What the process was so far must have ended.
func (r *restore) leavePlace(err error) bool {
	if r.place == nil || r.isFamily() || r.special() != "" || len(r.tids) == len(r.ids) || errors.Is(err, whole.ErrDied) {
		return false
	}
	r.threads.Belong(r.place, r.ids, 0)
	r.place = nil
	if r.o.Params[ParamIDs] == idsSame {
		return false
	}
	r.noPlace = err
	r.puppet.mem.Close()
	r.puppet, r.shell, r.layout, r.tids = puppet{}, shell{}, layout{}, nil
	return true
}

// enter has the fresh process make one in the place, which takes its part.
func (r *restore) enter() error {
	if r.place == nil {
		return nil
	}
	s, err := trace.WaitStop(r.pid, trace.CallLimit)
	if err != nil || s.Exited {
		return fmt.Errorf("starting %s: %w", r.o.Program, errors.Join(err, whole.ErrDied))
	}
	pid, err := r.place.Bear(r.pid, r.placeFD(), r.state.PID, r.state.Dir, r.spaces())
	if pid != 0 {
		if err != nil {
			err = errors.Join(err, endTraced(r.pid))
		}
		r.pid = pid
		r.threads.Belong(r.place, r.ids, pid)
	}
	return err
}

// placeFD is the number that the place's descriptor has in the fresh process.
func (r *restore) placeFD() int {
	last := r
	if n := len(r.kin); n > 0 {
		last = r.kin[n-1]
	}
	return last.maps.first + len(last.maps.paths) + len(r.slots)
}

// startInPlace starts the other threads with the ids that they had.
func (r *restore) startInPlace() error {
	r.tids = append(r.tids[:0], r.pid)
	return trace.WhileTaken(func() error {
		var calls []call
		for _, id := range r.ids[len(r.tids):] {
			calls = append(calls, call{what: "starting thread " + strconv.Itoa(id), nr: unix.SYS_CLONE3, args: [6]uint64{0, trace.CloneArgsSize},
				data: trace.CloneArgs(cloneFlags, id), fix: func(data []byte, addr uint64) { le.PutUint64(data[trace.IDPointer:], addr+trace.IDAt) },
				done: func(id uint64) { r.tids = append(r.tids, int(id)) }}) // until findThreads
		}
		return r.puppet.run(r.pid, calls)
	})
}

// findThreads finds out which numbers the threads have here.
func (r *restore) findThreads() error {
	tids, err := proc.Threads(r.pid)
	if err != nil {
		return err
	}
	byID := map[int]int{}
	for _, tid := range tids {
		s, err := proc.Parsed(r.pid, "task/"+strconv.Itoa(tid)+"/status", proc.ParseStatus)
		if err != nil {
			return err
		}
		byID[s.Inner] = tid
		r.puppet.ids[tid] = s.Inner
	}
	r.tids = r.tids[:0]
	for _, id := range r.ids {
		tid, ok := byID[id]
		if !ok {
			return fmt.Errorf("thread %d: %w", id, os.ErrNotExist)
		}
		r.tids = append(r.tids, tid)
	}
	return nil
}

// bornCalls restore what a process in a place is born without, and would have here.
func (r *restore) bornCalls() []call {
	if r.place == nil {
		return nil
	}
	sig := uint64(unix.SIGKILL) // with the agent
	if r.first != nil {
		sig = uint64(r.state.Kin.Death) // with its parent, as it has asked for
	}
	return []call{{what: "ending with the parent", nr: unix.SYS_PRCTL, args: [6]uint64{unix.PR_SET_PDEATHSIG, sig}}}
}

// dropCall gives up the capabilities that a thread has in a namespace of users of its own. It needs them to have
// its id, and is the last to go.
func (r *restore) dropCall() []call {
	if r.place == nil || !r.place.User {
		return nil
	}
	at := r.puppet.scratch + areaSize - areaLast
	return []call{{what: "giving up capabilities", nr: unix.SYS_CAPSET, args: [6]uint64{at, at + 8}}}
}
