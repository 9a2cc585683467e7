// Package cli is the gorun command: its verbs, their flags and what they print.
// A main package is one call of Main, with the back-ends that it has.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/agent"
	"github.com/gorun-mpi/gorun/internal/job/initproc"
	"github.com/gorun-mpi/gorun/internal/job/keeper"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/system/nofile"
	"github.com/gorun-mpi/gorun/launcher"
)

// command is one verb of gorun.
type command struct {
	name  string
	args  string // the arguments after the flags, for the usage line
	short string // one line
	long  string // help's text besides the flags
	// setup declares the flags. It returns the function that runs the command with the remaining arguments and
	// returns the exit status.
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
		runCommand, checkpointCommand, restartCommand, psCommand, statusCommand, stacksCommand, waitCommand, killCommand,
		holdCommand, releaseCommand, suspendCommand, resumeCommand, joinCommand, migrateCommand, swapOutCommand, swapInCommand,
		planCommand, snapshotsCommand, keyCommand, imageCommand, vetCommand, devicesCommand, infoCommand, versionCommand, completionCommand, helpCommand,
	}
}

// Main runs gorun with the arguments args, the command's name not included, and
// returns the exit status. The imagers are the back-ends that image whole
// processes; auto uses the first.
func Main(args []string, imagers ...whole.Imager) int {
	for _, i := range imagers {
		whole.Register(i)
	}
	if len(args) > 0 && args[0] == launcher.AgentVerb {
		return agent.Main(args[1:])
	}
	if len(args) > 0 && args[0] == launcher.KeeperVerb {
		return keeper.Main(args[1:])
	}
	if len(args) > 1 && args[0] == launcher.InitVerb {
		return initproc.Main(args[1:])
	}
	if len(args) > 1 && args[0] == launcher.PartsVerb {
		return program.Become(args)
	}
	return dispatch(args, stdio{os.Stdin, os.Stdout, os.Stderr})
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

// dispatch runs the command that the arguments name. Arguments without a verb are those of run.
func dispatch(args []string, std stdio) int {
	if len(args) == 0 {
		fmt.Fprint(std.err, shortHelp())
		return spec.ExitUsage
	}
	switch args[0] {
	case "-h", "-help", "--help":
		fmt.Fprint(std.out, shortHelp())
		return spec.ExitOK
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
			return spec.ExitOK
		}
		if word := othersFlag(err); word != "" && (c.name == "run" || c.name == "restart") {
			return usage(std, "%s\nusage: %s ('gorun help %s' tells more)", word, c.usage(), c.name)
		}
		text := err.Error()
		wanted := ": a whole number is wanted"
		if boolean := strings.Replace(text, "invalid boolean value", "invalid value", 1); boolean != text {
			text, wanted = boolean, ": true or false is wanted"
		}
		text = strings.Replace(text, ": parse error", wanted, 1)
		return usage(std, "%s\nusage: %s ('gorun help %s' tells more)", text, c.usage(), c.name)
	}
	return do(fs.Args())
}

// usage reports wrong usage.
func usage(std stdio, format string, args ...any) int {
	fmt.Fprintf(std.err, "gorun: "+format+"\n", args...)
	return spec.ExitUsage
}

// failed reports an error, if there is one, and returns the exit status.
func failed(std stdio, err error) int {
	if err == nil {
		return spec.ExitOK
	}
	err = nofile.Explain(err, nofile.OfHead(1), "")
	fmt.Fprintln(std.err, "gorun:", strings.TrimPrefix(err.Error(), "gorun: "))
	return spec.StatusOf(err)
}
