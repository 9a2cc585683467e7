package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/gorun-mpi/gorun/internal/job/spec"
)

// vetProgram is a command of a module of its own: the analysis libraries of Go are no dependency of gorun.
const vetProgram = "gorun-vet"

var vetCommand = command{
	name: "vet", args: "PACKAGE...", short: "look for what programs with portable images lack",
	long: `
vet reports loops with messages in a program without a cr.Point, variables that are live
at a Point and not registered, and registered ones that no restart needs. PACKAGE is as
in go vet, such as ./... It runs gorun-vet, which lies beside gorun or in PATH:

    go install github.com/gorun-mpi/gorun/cmd/gorun-vet@latest

The exit status is 3 if something was reported. What is reported is worth a look. That
nothing is reported is no proof. With -fix what could not be mended is reported, and go.mod
and go.sum list what package cr needs.`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		fix := fs.Bool("fix", false, "insert the calls: Register before the loop, Point at the beginning of its body")
		diff := fs.Bool("diff", false, "with -fix: print what would be changed, and change nothing")
		anyway := fs.Bool("any", false, "look at programs that do not import package cr, too")
		return func(args []string) int {
			if len(args) == 0 {
				return usage(std, "no PACKAGE was given, such as ./...\nusage: %s", lookup("vet").usage())
			}
			path, err := findVet()
			if err != nil {
				return failed(std, err)
			}
			packages := args
			if *anyway {
				args = append([]string{"-any"}, args...)
			}
			if *fix {
				how := []string{"-fix"}
				if *diff {
					how = append(how, "-diff")
				}
				if code := runVet(std, path, append(how, args...)); code != spec.ExitOK || *diff {
					return code
				}
				if err := requireCR(std, packages); err != nil {
					return failed(std, err)
				}
			}
			return runVet(std, path, args) // after a fix: what it could not mend
		}
	},
}

// modules matches what go says about a program whose go.mod or go.sum does not list all that it imports.
var modules = regexp.MustCompile(`go\.(mod|sum)|go get`)

// requireCR has go.mod and go.sum list what package cr needs, if the program has not imported it before: nothing would build otherwise.
func requireCR(std stdio, packages []string) error {
	list := func(flags ...string) ([]byte, error) {
		return exec.Command("go", slices.Concat([]string{"list", "-deps"}, flags, []string{"--"}, packages)...).CombinedOutput()
	}
	lacks, err := list()
	if err == nil || !modules.Match(lacks) {
		return nil // of other errors the analyzer tells
	}
	if out, err := list("-mod=mod"); err != nil {
		return fmt.Errorf("the program imports package cr now, and its go.mod or go.sum lacks what that needs; go mod tidy adds it: %w: %s", err, bytes.TrimSpace(append(lacks, out...)))
	}
	fmt.Fprintln(std.err, "gorun: go.mod and go.sum list now what package cr needs")
	return nil
}

// runVet runs the analyzer and returns its exit status.
func runVet(std stdio, path string, args []string) int {
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = std.in, std.out, std.err
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return failed(std, err)
	}
	return spec.ExitOK
}

// findVet finds the analyzer beside this executable, else in PATH.
func findVet() (string, error) {
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), vetProgram)
		if st, err := os.Stat(beside); err == nil && st.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(vetProgram)
	if err != nil {
		return "", errors.New(vetProgram + " is not installed beside gorun, nor in PATH: go install github.com/gorun-mpi/gorun/cmd/gorun-vet@latest")
	}
	return path, nil
}
