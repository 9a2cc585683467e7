package spec

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/owned"
	"github.com/gorun-mpi/gorun/launcher"
)

// FromSnapshot completes the options of a restart with np ranks; 0: as many as the snapshot has. The job, its program,
// arguments and environment come from the snapshot. So do its transports (RPI may be empty and not nil: the
// default) and parameters, unless the options name others. program may name another executable or
// folder, followed by other arguments; of the environment it gets only what is harmless (LeftEnv). The snapshot is one that Sound has returned.
func FromSnapshot(o *Options, s *snapshot.Snapshot, np int, program []string) error {
	whole := s.Schema.Backend != wire.BackendSelf
	switch {
	case whole && len(program) > 0:
		return fmt.Errorf("%s holds images of whole processes: they go on in the executable that was kept with it, with the arguments they had; no other PROGRAM can be given", s.SchemaPath())
	case !whole && len(o.Debug) > 0:
		return errNoDebug
	}
	if several := len(s.Schema.Program.Args) > 0 && s.Schema.Program.Args[0] == launcher.PartsVerb; several && (len(program) > 0 || np != 0 && np != s.Schema.NP) {
		return WithStatus(ExitUsage, fmt.Errorf("%s is of a job of several programs: it goes on with these, and with as many ranks", s.SchemaPath()))
	}
	for _, rank := range o.Debug {
		if rank < 0 || rank >= s.Schema.NP {
			return fmt.Errorf("-debug %d: the snapshot has ranks 0 to %d", rank, s.Schema.NP-1)
		}
	}
	p := &s.Schema.Program
	o.From, o.NP = s, cmp.Or(np, s.Schema.NP)
	o.Program, o.Args = p.Path, p.Args
	if o.RPI == nil {
		o.RPI = s.Schema.RPI
	}
	params := map[string]string{}
	maps.Copy(params, s.Schema.Params)
	maps.Copy(params, o.Params)
	o.Params = params
	if whole {
		o.Program, o.Name = s.ProgramPath(), p.Path
	} else if len(program) > 0 {
		o.Program = program[0]
		if len(program) > 1 {
			o.Args = program[1:]
		}
	} else if err := unchanged(p); err == nil {
	} else if s.ProgramPath() != "" { // the snapshot was imported
		o.Program, o.Name = s.ProgramPath(), p.Path
	} else {
		return fmt.Errorf("the program of the snapshot is not here (%w): to run another, name it: gorun restart SNAPSHOT -- PROGRAM", err)
	}
	if st, err := os.Stat(p.Dir); err == nil && st.IsDir() && len(program) == 0 {
		o.Dir = p.Dir
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	env, _ := split(s, len(program) > 0)
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.Contains(o.KeepEnv, name) { // a variable in KeepEnv is set by the user for this run
			o.KeepEnv = append(o.KeepEnv, name)
			o.Env = wire.SetEnv(o.Env, kv)
		}
	}
	return nil
}

// unchanged says why a program cannot be run again by its path alone: it does not exist, or belongs
// to another user now and is not the one that ran.
func unchanged(p *snapshot.Program) error {
	st, err := os.Stat(p.Path)
	if err != nil || !st.Mode().IsRegular() {
		return err
	}
	f, err := owned.Open(p.Path)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, owned.ErrForeign) {
		return nil // its mode may allow execution only
	}
	if digest, e := snapshot.FileDigest(p.Path); e == nil && digest == p.Digest {
		return nil
	}
	return err
}
