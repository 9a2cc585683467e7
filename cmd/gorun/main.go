// Gorun runs parallel programs that speak MPI through this module, and
// checkpoints and restarts them.
//
//	gorun -np 4 -cr ./solver          run, ready to be checkpointed
//	gorun checkpoint JOB              take a snapshot of a running job
//	gorun restart latest              go on from the newest snapshot
//
// 'gorun help' lists the commands, 'gorun help COMMAND' the flags of each.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gorun-mpi/gorun/internal/nofile"
	"github.com/gorun-mpi/gorun/launcher"
)

// command is one verb of gorun.
type command struct {
	name  string
	args  string // what follows the flags, for the usage line
	short string // one line
	long  string // what help says beside the flags
	// setup declares the flags and returns what runs the command with the
	// arguments that are left; that returns the exit status.
	setup func(fs *flag.FlagSet, std stdio) func(args []string) int
}

// stdio are the streams a command may use.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// commands are all verbs, in the order in which help lists them, run first.
var commands []command

func init() { // help and completion list what they are in
	commands = []command{
		runCommand, checkpointCommand, restartCommand, psCommand, statusCommand, killCommand,
		snapshotsCommand, imageCommand, infoCommand, versionCommand, completionCommand, helpCommand,
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == launcher.AgentVerb {
		os.Exit(launcher.AgentMain(os.Args[2:]))
	}
	os.Exit(dispatch(os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// lookup finds a command by its name, nil if there is none.
func lookup(name string) *command {
	for i := range commands {
		if commands[i].name == name {
			return &commands[i]
		}
	}
	return nil
}

// dispatch runs the command that the arguments name; without a verb they are
// those of a run.
func dispatch(args []string, std stdio) int {
	if len(args) == 0 {
		fmt.Fprint(std.err, shortHelp())
		return launcher.ExitUsage
	}
	switch args[0] {
	case "-h", "-help", "--help":
		fmt.Fprint(std.out, shortHelp())
		return launcher.ExitOK
	case "-version", "--version":
		args = []string{"version"}
	}
	if c := lookup(args[0]); c != nil {
		return c.run(args[1:], std)
	}
	return lookup("run").run(args, std)
}

// run parses the flags and runs the command.
func (c *command) run(args []string, std stdio) int {
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	do := c.setup(fs, std)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(std.out, c.help())
			return launcher.ExitOK
		}
		text := strings.Replace(err.Error(), "invalid boolean value", "invalid value", 1)
		return usage(std, "%s\nusage: %s ('gorun help %s' tells more)", text, c.usage(), c.name)
	}
	return do(fs.Args())
}

// usage reports wrong usage.
func usage(std stdio, format string, args ...any) int {
	fmt.Fprintf(std.err, "gorun: "+format+"\n", args...)
	return launcher.ExitUsage
}

// failed reports an error, nil being none.
func failed(std stdio, err error) int {
	if err == nil {
		return launcher.ExitOK
	}
	err = nofile.Explain(err, nofile.OfHead(1), "")
	fmt.Fprintln(std.err, "gorun:", strings.TrimPrefix(err.Error(), "gorun: "))
	return launcher.ExitFailed
}
