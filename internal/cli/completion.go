package cli

import (
	"flag"
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/internal/job/spec"
)

var completionCommand = command{
	name: "completion", args: "bash|zsh|fish", short: "print a completion script for a shell",
	long: `
For the running shell:
  bash   source <(gorun completion bash)
  zsh    source <(gorun completion zsh)
  fish   gorun completion fish | source`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		return func(args []string) int {
			if len(args) != 1 {
				return usage(std, "usage: gorun completion bash|zsh|fish")
			}
			script, ok := map[string]func() string{"bash": bash, "zsh": zsh, "fish": fish}[args[0]]
			if !ok {
				return usage(std, "completion for %q is not there; known are bash, zsh, fish", args[0])
			}
			fmt.Fprint(std.out, script())
			return spec.ExitOK
		}
	},
}

// flagNames returns a command's flags as they are typed.
func (c *command) flagNames() []string {
	var names []string
	c.flags().VisitAll(func(f *flag.Flag) { names = append(names, "-"+f.Name) })
	return names
}

func verbs() []string {
	var names []string
	for i := range commands {
		c := &commands[i]
		names = append(names, c.name)
	}
	return names
}

// jobIDs is a shell command that prints the ids of running jobs.
const jobIDs = `gorun ps 2>/dev/null | awk 'NR > 1 { print $1 }'`

// snapshotIDs is a shell command that prints the names of snapshots: JOB for the newest of each job, and
// JOB/SEQ. The shell completes paths.
const snapshotIDs = `gorun snapshots 2>/dev/null | awk 'NR > 1 { if ($1 != job) print $1; job = $1; print $1, $2 }' OFS=/`

// words returns what may follow a verb, as a shell's word list.
func (c *command) words() string {
	w := strings.Join(c.flagNames(), " ")
	switch c.name {
	case "checkpoint", "status", "plan", "stacks", "kill", "hold", "release", "suspend", "resume", "join", "migrate", "swap-out", "swap-in":
		w += " $(" + jobIDs + ")"
	case "restart", "snapshots":
		w += " latest $(" + snapshotIDs + ")"
	case "image":
		w += " inspect export latest $(" + snapshotIDs + ")"
	case "completion":
		w += " bash zsh fish"
	case "help":
		w += " " + strings.Join(verbs(), " ")
	}
	return strings.TrimSpace(w)
}

func bash() string {
	var b strings.Builder
	b.WriteString("# bash completion for gorun\n_gorun() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} words\n\tcase ${COMP_WORDS[1]} in\n")
	for i := range commands[1:] {
		c := &commands[1+i]
		fmt.Fprintf(&b, "\t%s) words=\"%s\" ;;\n", c.name, c.words())
	}
	fmt.Fprintf(&b, "\t*) words=\"%s\" ;;\n\tesac\n", strings.Join(lookup("run").flagNames(), " "))
	fmt.Fprintf(&b, "\t[ \"$COMP_CWORD\" = 1 ] && words=\"%s %s\"\n", strings.Join(verbs(), " "), strings.Join(lookup("run").flagNames(), " "))
	b.WriteString("\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -o default -F _gorun gorun\n")
	return b.String()
}

func zsh() string {
	return "#compdef gorun\nautoload -U +X bashcompinit && bashcompinit\n" + bash()
}

func fish() string {
	var b strings.Builder
	b.WriteString("# fish completion for gorun\n")
	for i := range commands {
		c := &commands[i]
		fmt.Fprintf(&b, "complete -c gorun -n __fish_use_subcommand -a %s -d %s\n", c.name, quote(c.short))
		cond := "__fish_seen_subcommand_from " + c.name
		if c.name == "run" {
			cond = "not __fish_seen_subcommand_from " + strings.Join(verbs()[1:], " ")
		}
		c.flags().VisitAll(func(f *flag.Flag) {
			_, text := flag.UnquoteUsage(f)
			first, _, _ := strings.Cut(text, "\n")
			fmt.Fprintf(&b, "complete -c gorun -n %s -o %s -d %s\n", quote(cond), f.Name, quote(first))
		})
	}
	fmt.Fprintf(&b, "complete -c gorun -n '__fish_seen_subcommand_from restart snapshots' -a \"latest (%s)\"\n", strings.ReplaceAll(snapshotIDs, "$", `\$`))
	fmt.Fprintf(&b, "complete -c gorun -n '__fish_seen_subcommand_from checkpoint status plan stacks kill hold release suspend resume join migrate' -a \"(%s)\"\n", strings.ReplaceAll(jobIDs, "$", `\$`))
	return b.String()
}

// quote makes a single shell word.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
