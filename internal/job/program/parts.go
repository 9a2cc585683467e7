package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/launcher"
)

// A job of several programs (gorun -np 1 ./a : -np 2 ./b) is one of gorun itself, whose arguments
// list them. Each rank begins as gorun and becomes its program (exec) before anything else. So the
// code that starts, restarts and describes jobs knows one program only.

// Part is one of several programs of a job. The ranks of the first part are the first ones.
type Part struct {
	NP   int
	Path string // of the executable
	Args []string
}

// Parts returns the command of ranks that begin as gorun, which is at self.
func Parts(self string, parts []Part) []string {
	args := []string{self, launcher.PartsVerb}
	for _, p := range parts {
		args = append(args, strconv.Itoa(p.NP), strconv.Itoa(len(p.Args)), p.Path)
		args = append(args, p.Args...)
	}
	return args
}

// PartsOf returns the programs that such arguments list, nil if they are other arguments.
func PartsOf(args []string) (parts []Part) {
	if len(args) < 2 || args[0] != launcher.PartsVerb {
		return nil
	}
	for args = args[1:]; len(args) > 0; {
		if len(args) < 3 {
			return nil
		}
		np, err := strconv.Atoi(args[0])
		n, nerr := strconv.Atoi(args[1])
		if err != nil || nerr != nil || np < 1 || n < 0 || n > len(args)-3 {
			return nil
		}
		parts = append(parts, Part{NP: np, Path: args[2], Args: args[3 : 3+n]})
		args = args[3+n:]
	}
	return parts
}

// Ranks is how many ranks several programs have.
func Ranks(parts []Part) (n int) {
	for _, p := range parts {
		n += p.NP
	}
	return n
}

// partOf is the program of a rank.
func partOf(parts []Part, rank int) (p Part, err error) {
	if rank < 0 {
		return p, fmt.Errorf("rank %d: no rank of a job", rank)
	}
	left := rank
	for _, p := range parts {
		if left < p.NP {
			return p, nil
		}
		left -= p.NP
	}
	return p, fmt.Errorf("rank %d: the programs of the job are for %d ranks", rank, Ranks(parts))
}

// Become makes this process, a rank, its program. It returns if that fails, with the exit status.
func Become(args []string) int {
	rank, err := strconv.Atoi(os.Getenv(oob.EnvRank))
	if err != nil {
		fmt.Fprintln(os.Stderr, "gorun: this verb is gorun's own: it is used to start ranks")
		return spec.ExitUsage
	}
	p, err := partOf(PartsOf(args), rank)
	env := os.Environ()
	if err == nil {
		env, err = oob.Bequeath(env)
	}
	if err == nil {
		err = syscall.Exec(p.Path, append([]string{p.Path}, p.Args...), env)
		err = fmt.Errorf("rank %d: %s: %w (a job of several programs needs each of them on every node)", rank, p.Path, err)
	}
	fmt.Fprintln(os.Stderr, "gorun:", err)
	if errors.Is(err, fs.ErrNotExist) {
		return spec.ExitNotFound
	}
	return spec.ExitCannotExec
}

// Told returns a command as users know it: the program that a rank attends, or several programs.
func Told(program string, args []string) []string {
	parts := PartsOf(args)
	if parts == nil {
		name, args, _ := Attended(program, args)
		return append([]string{filepath.Base(name)}, args...)
	}
	var words []string
	for i, p := range parts {
		if i > 0 {
			words = append(words, ":")
		}
		words = append(words, "-np", strconv.Itoa(p.NP), filepath.Base(p.Path))
		words = append(words, p.Args...)
	}
	return words
}

// Same identifies a command across runs. It leaves out gorun, which may have been replaced since
// where it begins the ranks.
func Same(program string, args []string) (name string, rest []string) {
	if PartsOf(args) != nil {
		return launcher.PartsVerb, args
	}
	name, rest, _ = Attended(program, args)
	return name, rest
}

// FindPart completes a part whose Path is as the user gave it. Source is built before, so the part
// is an executable.
func FindPart(p *Part, dir string) error {
	var found Program
	if err := found.Find(p.Path, dir); err != nil {
		return err
	}
	if found.IsSource() {
		return spec.WithStatus(spec.ExitUsage, fmt.Errorf("%s: several programs (:) are executables: build it first (CGO_ENABLED=0 go build)", p.Path))
	}
	p.Path = found.Path
	return nil
}
