package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/storeurl"
)

var restartCommand = command{
	name: "restart", args: "SNAPSHOT [-- PROGRAM [args]]",
	short: "go on from a snapshot",
	long: `
SNAPSHOT is one of these:

    the path of a schema or of a snapshot's folder
    the beginning of a job's id: its newest snapshot
    JOB/SEQUENCE
    latest: the newest of all jobs that have not ended well since

The snapshot has the program, its arguments, the number of ranks and the variables that
were kept. For portable images (self) PROGRAM may name another executable, rebuilt or for
another architecture. Without args it gets those of the snapshot. Native images go on in
the executable that was kept with the snapshot.

-np goes on with another number of ranks: from portable images, if the program has all its
state in arrays of package dist, or registers it as the same on all ranks, and no message
was under way. Each rank reads the parts of the images that it needs. What is in the way is
named before anything is started.

These also come from the snapshot, unless they are given anew: -rpi and -param (but not
the parameter job.nodes), -ckpt-every, -ckpt-points, -stores, -mtbf, -ckpt-on-signal, -ckpt-codec, -ckpt-exit-status,
-ckpt-full-every, -ckpt-local, -ckpt-mirror, -ckpt-store, -ckpt-key, -keep, -restarts, -heartbeat, -grace, -deadlock, -map, -bind, -devices,
-output-dir and -tag-output; and, where the restart has nodes, -lease, -spares (fewer if the nodes are
needed for ranks), -shrink-to-fit and -oversubscribe. -restarts counts anew. 0 turns a flag
off, =false a switch, '' -output-dir, -ckpt-local, -ckpt-store and -ckpt-key. Where the ranks run and how that is
reached (-hosts, -hostfile, -manager, -ssh, -agents) does not come from the snapshot, and no
command does (-migrate-on): the line that gorun prints when it has stopped a job names them.

To a PROGRAM of your own a snapshot is data. Nothing that the snapshot says is executed, and
of the variables of -env none is taken: give them again. The program of a snapshot runs with
all that was kept, as you: restart only snapshots of people whom you trust.

Portable images are read and checked before anything is started. For native images gorun
first checks the table of every image, what the images need of the machine, and which
files several ranks write to: these are cut once for all. The rest of an image and its files are checked as they
are read. No rank takes a step before all ranks are restored.

If SNAPSHOT means the newest of several, all of it is read first. If it is damaged, or
lies in the folder of another, or a gorun that stands still is about to commit or remove
it, the next older one is taken. The snapshot stays, unless -keep removes it. It may be
restarted any number of times, but a job that is running is refused, whichever session or
machine runs it, unless -files copy or keep asks for a second run beside it. The job keeps
its id. Each restart has an incarnation id of its own.

Images on nodes (-ckpt-local) are looked for on all nodes of the restart, as soon as these
are up. A rank whose image is on another node gets a copy of it. If an image is nowhere,
the next older snapshot is taken; the nodes that are missed are named.

Images in an object store (-ckpt-store) are read from there. Sealed ones (-ckpt-key) need
their key file where it was. If it has moved, make a link.

In a folder in common, SNAPSHOT and latest mean your own jobs. A snapshot that another user has written,
or could have, is taken only if it is named and -trust is given: its program runs as you.
Further snapshots go into your own folder then.

-debug holds a rank of a snapshot with native images before it goes on, and prints its
process id. Attach a debugger to it (dlv attach PID, or gdb -p PID for a program in C), or let it go on with kill -CONT PID.
The other ranks wait for it, but for programs that know nothing of gorun.

-device goes on with other devices (gorun devices lists them). With native images the devices that each rank
had open are put on those of the list in turn; they are of the same library, opencl or cuda, and of any kind. With portable images the program opens
them again: -device is its GORUN_DEVICE, and cpu:0 will do; a number alone is of the library that the program uses.`,
	setup: setupRestart,
}

func setupRestart(fs *flag.FlagSet, std stdio) func([]string) int {
	opt := commonFlags(fs)
	np := fs.Int("np", 0, "number of `ranks` (default: that of the snapshot); another number needs portable images of a\nprogram whose state is distributed by package dist")
	cr := &crFlag{}
	debug := debugFlag{}
	devices := fs.String("device", "", "`IDs` of the devices to go on with, as cuda:1,cuda:0 or 1 (default: those of the snapshot)")
	trust := trustFlag(fs)
	fs.Var(cr, "cr", "kind of images of further checkpoints (default: the job's; -cr=false: no checkpoints)")
	fs.Var(&debug, "debug", "hold this `rank` for a debugger; may be repeated")
	return func(args []string) int {
		if len(args) == 0 {
			return usage(std, "no SNAPSHOT was given; 'gorun snapshots' lists them\nusage: %s", lookup("restart").usage())
		}
		if status, yes := keepsPod(std); yes {
			return status
		}
		which, program := args[0], args[1:]
		if len(program) > 0 {
			if program[0] != "--" {
				return usage(std, "%q after the snapshot: flags come before SNAPSHOT, another program after --", program[0])
			}
			if program = program[1:]; len(program) == 0 {
				return usage(std, "no PROGRAM after --")
			}
		}
		if status, yes := opt.detach(std); yes {
			return status
		}
		given := set(fs)
		if _, err := control.Jobs(); err != nil { // removes what dead jobs left
			return failed(std, err)
		}
		all, passed, err := findSnapshots(opt.CkptDir, which, *trust, toRun)
		if err != nil {
			return failed(std, err)
		}
		tellPassed(std, passed)
		s := all[0]
		opt.CR = cr.value
		if !given["cr"] {
			opt.CR = cmp.Or(s.Schema.CR, s.Schema.Backend)
		}
		opt.Debug = debug
		if err := opt.onDevices(*devices, s.Schema.Backend == wire.BackendSelf); err != nil {
			return usage(std, "%v", err)
		}
		if given["np"] && *np < 1 {
			return usage(std, "-np %d: a job has at least one rank", *np)
		}
		return opt.goOn(fs, std, all, *np, program)
	}
}

// onDevices takes the devices that a restart is to go on with.
func (opt *options) onDevices(list string, portable bool) error {
	if list == "" {
		return nil
	}
	ids := strings.Split(list, ",")
	for _, id := range ids {
		if err := offload.CheckName(id); err != nil {
			return fmt.Errorf("-device: %w", err)
		} else if err := offload.CheckDevice(id); err != nil && !portable {
			return fmt.Errorf("-device: native images: %w", err)
		}
	}
	if portable {
		opt.env = append(opt.env, "GORUN_DEVICE="+list)
	} else {
		opt.Devices = ids
	}
	return nil
}

// tellPassed says why newer snapshots were passed over.
func tellPassed(std stdio, passed []error) {
	for _, why := range passed {
		fmt.Fprintf(std.err, "gorun: passed over for an older snapshot: %v\n", why)
	}
}

// goOn restarts a job from the first of some snapshots that is sound, with np ranks (0: as many as it has). program is another executable, with arguments; nil: the snapshot's.
func (opt *options) goOn(fs *flag.FlagSet, std stdio, all []*snapshot.Snapshot, np int, program []string) int {
	s := all[0]
	if opt.CkptDir == "" {
		opt.CkptDir = catalogueOf(s)
	}
	if s.Schema.Backend != "self" && !kept(s, opt.env) {
		return usage(std, "-env: the environment of the ranks is part of their images and cannot be changed")
	}
	nodes, err := opt.where.find(set(fs))
	if err != nil {
		return usage(std, "%v", err)
	}
	opt.typed = set(fs)
	taken, err := takeOver(fs, s.Schema.Plan, opt.CR != "", len(nodes) > 0)
	opt.where.fewer = slices.Contains(taken, "-spares")
	if err != nil {
		return failed(std, fmt.Errorf("%s: flags that the job was given: %w", s.SchemaPath(), err))
	}
	if err := opt.check(fs); err != nil {
		return usage(std, "%v", err)
	}
	if len(nodes) == 0 {
		carryOn(opt.Plan, s.Schema.Plan)
	}
	if unknown := slices.DeleteFunc(slices.Clone(s.Schema.RPI), func(name string) bool { return contains(transports(), name) }); opt.RPI == nil && len(unknown) > 0 {
		fmt.Fprintf(std.err, "gorun: the job had -rpi %s, of which this gorun does not know %s: the default is used\n", strings.Join(s.Schema.RPI, ","), strings.Join(unknown, ","))
		opt.RPI = []string{}
	}
	if len(opt.Nodes) > 0 && slices.ContainsFunc(all, onNodes) {
		opt.Older = all[1:] // which is whole is told when the nodes are up
	} else if err := opens(s); err != nil {
		return failed(std, fmt.Errorf("%s: %w", s.SchemaPath(), err))
	} else if s, err = spec.Sound(all, np, opt.Files, func(s *snapshot.Snapshot, why error) {
		fmt.Fprintf(std.err, "gorun: snapshot %d of job %s cannot be used: %v\n", s.Schema.Sequence, s.Schema.Job, why)
	}, spec.Slow{After: spec.SlowAfter, Tell: func(line string) { fmt.Fprintln(std.err, "gorun:", line) }}); err != nil {
		return failed(std, err)
	}
	if opt.restartLatest && s.Schema.Backend != "self" {
		program = nil // it is the same one, and kept with the snapshot
	}
	if err := spec.FromSnapshot(&opt.Options, s, np, program); err != nil {
		return failed(std, err)
	}
	opt.Still = still(s)
	goesOn, err := announcement(s, opt.NP)
	if err != nil {
		return failed(std, err)
	}
	opt.Claimed = func() {
		fmt.Fprintln(std.err, goesOn)
		if len(taken) > 0 {
			fmt.Fprintf(std.err, "gorun: as the job was given them: %s\n", printable(typed(taken)))
		}
		opt.tellLeft(fs, std, s, len(program) > 0)
	}
	return opt.launch(std)
}

// tellLeft says what a restart does not take from the snapshot, because it could make other programs run.
func (opt *options) tellLeft(fs *flag.FlagSet, std stdio, s *snapshot.Snapshot, ownProgram bool) {
	if left := leftCommands(fs, s.Schema.Plan); len(left) > 0 {
		fmt.Fprintf(std.err, "gorun: not taken from the snapshot, as commands never are; give it again if you want it: %s\n", printable(typed(left)))
	}
	if left := opt.LeftEnv(s); ownProgram && len(left) > 0 {
		fmt.Fprintf(std.err, "gorun: not taken from the snapshot, as the program is not its own; give with -env what it needs: %s\n", printable(typed(left)))
	}
}

// onNodes reports whether a copy of a snapshot lies in parts on nodes.
func onNodes(s *snapshot.Snapshot) bool {
	return slices.ContainsFunc(s.Copies(), func(c snapshot.Copy) bool { return storeurl.Place(c.Place()).Inner().Kind == node.Kind })
}

// kept reports whether variables were given to the job as they are given now.
func kept(s *snapshot.Snapshot, env envFlag) bool {
	return !slices.ContainsFunc(env, func(kv string) bool { return !slices.Contains(s.Schema.Program.Env, kv) })
}

// announcement says what a restart goes on from, if it does: another gorun may run the job.
func announcement(s *snapshot.Snapshot, np int) (string, error) {
	finished, err := s.Finished()
	if err != nil {
		return "", err
	}
	c := s.Schema
	also := ""
	if finished {
		also = "; a run of this job has ended well since"
	}
	now := ""
	if np != c.NP {
		now = fmt.Sprintf(", on %d ranks now", np)
	}
	return fmt.Sprintf("gorun: job %s goes on from snapshot %d, taken %s ago (%s, %d ranks)%s%s", c.Job, c.Sequence, age(time.Since(c.Created)), c.Backend, c.NP, now, also), nil
}

// age is a duration for people.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(d, 0)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// debugFlag collects ranks.
type debugFlag []int

func (f *debugFlag) String() string { return fmt.Sprint([]int(*f)) }

func (f *debugFlag) Set(s string) error {
	rank, err := strconv.Atoi(s)
	if err != nil || rank < 0 {
		return errors.New("give the number of a rank")
	}
	*f = append(*f, rank)
	return nil
}

// findSnapshots finds the snapshot that the user means in the folder for snapshots. Older ones that may take
// its place follow. passed says why newer ones were passed over. does is what -trust would have the command do.
func findSnapshots(dir, which string, trust bool, does string) (all []*snapshot.Snapshot, passed []error, err error) {
	root, err := ckptDir(dir)
	if err != nil {
		if _, there := os.Stat(which); there != nil {
			return nil, nil, err
		}
		root = filepath.Dir(which) // a path says itself where it lies
	}
	c, err := openCatalogue(root)
	if err != nil {
		return nil, nil, err
	}
	if trust && which != "latest" {
		c.Trust()
	}
	all, passed, err = c.Candidates(which)
	if left := leftOut(c); which == "latest" && left != "" && errors.Is(err, snapshot.ErrNotFound) {
		return nil, nil, fmt.Errorf("%w of yours: latest means your own jobs, with -trust too, and %s; -trust takes one of theirs that is named", err, left)
	}
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil, nil, fmt.Errorf("%w; 'gorun snapshots' lists them, -ckpt-dir names another folder", err)
	}
	return all, passed, foreign(err, does)
}

// catalogueOf returns the folder in which a snapshot lies as its job wrote it. It returns "" if the snapshot
// was copied somewhere else, or is another user's.
func catalogueOf(s *snapshot.Snapshot) string {
	job := filepath.Dir(s.Dir)
	if filepath.Base(job) != s.Schema.Job || !s.Own() {
		return ""
	}
	return filepath.Dir(job)
}
