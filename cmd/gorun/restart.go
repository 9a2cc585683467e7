package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/launcher"
)

var restartCommand = command{
	name: "restart", args: "SNAPSHOT [-- PROGRAM [args]]",
	short: "go on from a snapshot",
	long: `
SNAPSHOT is the path of a schema or of a snapshot's folder, the beginning of a
job's id (its newest snapshot), JOB/SEQUENCE, or latest (the newest of all).

The program, its arguments, the number of ranks and the variables that were kept
come from the snapshot. Of back-end self, PROGRAM names another executable,
rebuilt or of another architecture; without args it gets those of the snapshot.
Whole processes go on in the executable that was kept with the snapshot. The
number of ranks cannot be changed. The transports that were asked for with -rpi
and the parameters come from the snapshot, too, each as far as it is not given
anew; -agents and the parameter job.nodes do not.

Before anything is started the table of every image is checked, and of whole
processes what they need of the machine and whether several write to one file; the
rest of an image is checked as it is read, and its files are, and no rank takes a
step before all ranks are restored. 'gorun snapshots -verify' reads everything. The snapshot stays, and may
be restarted any number of times, also at the same time. The job keeps its id; an
incarnation's id tells its restarts apart.

-debug holds a rank of a snapshot of whole processes before it goes on and tells
its process id: attach a debugger to it (dlv attach PID), or let it go on with
kill -CONT PID. The other ranks wait for it.`,
	setup: setupRestart,
}

func setupRestart(fs *flag.FlagSet, std stdio) func([]string) int {
	opt := commonFlags(fs)
	np := fs.Int("np", 0, "accepted only if it is the number of `ranks` of the snapshot")
	cr := &crFlag{}
	debug := debugFlag{}
	fs.Var(cr, "cr", "back-end of further checkpoints (default what the job had; -cr=false: none)")
	fs.Var(&debug, "debug", "hold this `rank` for a debugger; may be repeated")
	return func(args []string) int {
		if len(args) == 0 {
			return usage(std, "no SNAPSHOT was given; 'gorun snapshots' lists them\nusage: %s", lookup("restart").usage())
		}
		spec, program := args[0], args[1:]
		if len(program) > 0 {
			if program[0] != "--" {
				return usage(std, "%q after the snapshot: flags come before SNAPSHOT, another program after --", program[0])
			}
			if program = program[1:]; len(program) == 0 {
				return usage(std, "no PROGRAM after --")
			}
		}
		given := set(fs)
		if _, err := launcher.Jobs(); err != nil { // removes what dead jobs left
			return failed(std, err)
		}
		s, err := findSnapshot(opt.CkptDir, spec)
		if err != nil {
			return failed(std, err)
		}
		if given["np"] && *np != s.Schema.NP {
			return usage(std, "-np %d: the snapshot was taken on %d ranks, and that cannot be changed", *np, s.Schema.NP)
		}
		opt.CR = cr.value
		if !given["cr"] {
			opt.CR = cmp.Or(s.Schema.CR, s.Schema.Backend)
		}
		if opt.CkptDir == "" {
			opt.CkptDir = catalogueOf(s)
		}
		opt.Debug = debug
		if given["env"] && s.Schema.Backend != "self" {
			return usage(std, "-env: the environment of the ranks is part of their images and cannot be changed")
		}
		if err := opt.check(fs); err != nil {
			return usage(std, "%v", err)
		}
		if unknown := slices.DeleteFunc(slices.Clone(s.Schema.RPI), func(name string) bool { return contains(transports(), name) }); opt.RPI == nil && len(unknown) > 0 {
			fmt.Fprintf(std.err, "gorun: the job had -rpi %s, of which this gorun does not know %s: the default is used\n", strings.Join(s.Schema.RPI, ","), strings.Join(unknown, ","))
			opt.RPI = []string{}
		}
		if err := launcher.FromSnapshot(&opt.Options, s, program); err != nil {
			return failed(std, err)
		}
		return launch(&opt.Options, std)
	}
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

// findSnapshot finds what the user means in the folder for snapshots.
func findSnapshot(dir, spec string) (*snapshot.Snapshot, error) {
	root, err := ckptDir(dir)
	if err != nil {
		return nil, err
	}
	c, err := snapshot.Open(root)
	if err != nil {
		return nil, err
	}
	s, err := c.Find(spec)
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil, fmt.Errorf("%w; 'gorun snapshots' lists them, -ckpt-dir names another folder", err)
	}
	return s, err
}

// catalogueOf is the folder in which a snapshot lies as its job wrote it, "" if
// it was copied somewhere else.
func catalogueOf(s *snapshot.Snapshot) string {
	job := filepath.Dir(s.Dir)
	if filepath.Base(job) != s.Schema.Job {
		return ""
	}
	return filepath.Dir(job)
}
