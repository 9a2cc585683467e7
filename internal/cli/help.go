package cli

import (
	"flag"
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/launcher"
)

var helpCommand = command{
	name: "help", args: "[COMMAND]", short: "tell about a command",
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		return func(args []string) int {
			if len(args) == 0 {
				fmt.Fprint(std.out, shortHelp())
				return spec.ExitOK
			}
			c := lookup(args[0])
			if c == nil {
				return usage(std, "there is no command %q; commands: %s", args[0], strings.Join(verbs(), ", "))
			}
			fmt.Fprint(std.out, c.help())
			return spec.ExitOK
		}
	},
}

var versionCommand = command{
	name: "version", short: "print the version",
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		return func(args []string) int {
			if len(args) > 0 {
				return usage(std, "version takes no arguments")
			}
			fmt.Fprintln(std.out, "gorun", launcher.Version)
			return spec.ExitOK
		}
	},
}

// shortHelp is gorun's answer without arguments.
func shortHelp() string {
	var b strings.Builder
	b.WriteString("gorun runs, checkpoints and restarts parallel programs.\n\n")
	b.WriteString("  gorun [flags] PROGRAM [args]    run PROGRAM on -np ranks: an executable, a folder with a Go main package, or a Go file\n\nCommands:\n")
	for i := range commands {
		c := &commands[i]
		fmt.Fprintf(&b, "  %-12s %s\n", c.name, c.short)
	}
	b.WriteString("\nExamples:\n  gorun -np 4 -cr ./solver\n  gorun checkpoint -stop 5f1c\n  gorun restart latest\n\n'gorun help COMMAND' tells the flags; flags may be written -flag or --flag.\n")
	return b.String()
}

// usage is the command's usage line.
func (c *command) usage() string {
	s := "gorun"
	if c.name != "run" {
		s += " " + c.name
	}
	hasFlags := false
	c.flags().VisitAll(func(*flag.Flag) { hasFlags = true })
	if hasFlags {
		s += " [flags]"
	}
	if c.args != "" {
		s += " " + c.args
	}
	return s
}

// flags returns the command's flags, unparsed.
func (c *command) flags() *flag.FlagSet {
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	c.setup(fs, stdio{})
	return fs
}

// help is the long text about a command.
func (c *command) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s\n\n%s.\n", c.usage(), strings.ToUpper(c.short[:1])+c.short[1:])
	if c.long != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(c.long))
	}
	first := true
	c.flags().VisitAll(func(f *flag.Flag) {
		if first {
			b.WriteString("\nFlags:\n")
			first = false
		}
		arg, text := flag.UnquoteUsage(f)
		name := "-" + f.Name
		if optional, ok := f.Value.(interface{ Optional() string }); ok {
			name += "[=" + optional.Optional() + "]"
		} else if arg != "" {
			name += " " + arg
		}
		if len(name) > 22 {
			fmt.Fprintf(&b, "  %s\n  %-22s", name, "")
		} else {
			fmt.Fprintf(&b, "  %-22s", name)
		}
		fmt.Fprintf(&b, " %s\n", strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 25)))
	})
	return b.String()
}
