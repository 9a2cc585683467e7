package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/job/spec"
)

// Several programs are given as to mpirun, with a colon between them: gorun -np 1 ./a : -np 2 ./b args.

// several takes them from a command line, if there are several.
func (o *options) several(fs *flag.FlagSet, args []string) error {
	if !slices.Contains(args, ":") {
		return nil
	}
	np := o.NP
	for {
		end := slices.Index(args, ":")
		if end < 0 {
			end = len(args)
		}
		if end == 0 {
			return errors.New("no PROGRAM between two colons: gorun -np 1 ./a : -np 2 ./b")
		}
		o.parts = append(o.parts, program.Part{NP: np, Path: args[0], Args: args[1:end]})
		if end == len(args) {
			break
		}
		var err error
		if np, args, err = partFlags(args[end+1:]); err != nil {
			return err
		}
	}
	return fs.Set("np", strconv.Itoa(program.Ranks(o.parts)))
}

// partFlags takes the flags of a further program. All others are those of the job, and come first.
func partFlags(args []string) (np int, rest []string, err error) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.IntVar(&np, "np", 1, "")
	fs.IntVar(&np, "n", 1, "")
	switch err := fs.Parse(args); {
	case err != nil:
		return 0, nil, fmt.Errorf("behind a colon: %w; a program has -np only, the flags of the job come before the first", err)
	case np < 1:
		return 0, nil, fmt.Errorf("-np %d: a program has at least one rank", np)
	case fs.NArg() == 0:
		return 0, nil, errors.New("no PROGRAM behind a colon: gorun -np 1 ./a : -np 2 ./b")
	}
	return np, fs.Args(), nil
}

// findParts finds the programs, and gives what the ranks run that become them.
func (o *options) findParts() ([]string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for i := range o.parts {
		p := &o.parts[i]
		if err := program.FindPart(p, dir); err != nil {
			return nil, err
		}
		if name := spec.ImagerName(o.CR); name != "" && o.CR != spec.CRAuto && name == whole.Default() {
			if code, err := spec.CanImage(name, p.Path); err != nil {
				return nil, spec.WithStatus(code, fmt.Errorf("-cr=%s: %w", o.CR, err))
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return program.Parts(self, o.parts), nil
}
