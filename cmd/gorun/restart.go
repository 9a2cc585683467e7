package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"

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
come from the snapshot. PROGRAM names another executable, rebuilt or of another
architecture; without args it gets those of the snapshot. The number of ranks
cannot be changed.

All images are checked before anything is started. The snapshot stays, and may
be restarted any number of times, also at the same time. The job keeps its id;
an incarnation's id tells its restarts apart.`,
	setup: setupRestart,
}

func setupRestart(fs *flag.FlagSet, std stdio) func([]string) int {
	opt := commonFlags(fs)
	np := fs.Int("np", 0, "accepted only if it is the number of `ranks` of the snapshot")
	cr := &crFlag{}
	fs.Var(cr, "cr", "back-end of further checkpoints (default that of the snapshot; -cr=false: none)")
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
		s, err := findSnapshot(opt.CkptDir, spec)
		if err != nil {
			return failed(std, err)
		}
		if given["np"] && *np != s.Schema.NP {
			return usage(std, "-np %d: the snapshot was taken on %d ranks, and that cannot be changed", *np, s.Schema.NP)
		}
		opt.CR = cr.value
		if !given["cr"] {
			opt.CR = s.Schema.Backend
		}
		if opt.CkptDir == "" {
			opt.CkptDir = catalogueOf(s)
		}
		if err := opt.check(fs); err != nil {
			return usage(std, "%v", err)
		}
		if err := launcher.FromSnapshot(&opt.Options, s, program); err != nil {
			return failed(std, err)
		}
		return launch(&opt.Options, std)
	}
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
