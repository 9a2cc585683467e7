package cli

import (
	"flag"
	"slices"
	"strings"
)

// planFlags say how a job is called and placed, when and how it is checkpointed and started again, when a node or an
// agent counts as lost, and where its output goes. A job keeps in its snapshots which of them it was given, and a
// restart takes them over. So a job does in its second time slot what it did in the first. Which nodes it has, and
// how they are reached (-hosts, -hostfile, -manager, -ssh, -agents), is another matter with every restart. So are
// commands (-migrate-on): a schema may have come from somebody else, and nothing that it says is ever executed.
var planFlags = slices.Concat(ckptFlags, nodesFlags, []string{"restarts", "map", "bind", "heartbeat", "grace", "deadlock", "output-dir", "tag-output", "name", "devices"})

// planCommands were kept in the plans of older snapshots, too. They are told, and never taken.
var planCommands = []string{"migrate-on"}

// ckptFlags are the plan's flags that make no sense without -cr.
var ckptFlags = []string{"ckpt-every", "ckpt-points", "stores", "mtbf", "ckpt-on-signal", "ckpt-codec", "ckpt-exit-status", "ckpt-full-every", "ckpt-local", "ckpt-store", "ckpt-key", "ckpt-mirror", "racks", "keep"}

// nodesFlags are the plan's flags that make no sense on this machine alone.
var nodesFlags = []string{"lease", "oversubscribe", "spares", "shrink-to-fit"}

// plan returns the plan's flags that were given, by name.
func plan(fs *flag.FlagSet) map[string]string {
	p := map[string]string{}
	fs.Visit(func(f *flag.Flag) {
		if slices.Contains(planFlags, f.Name) {
			p[f.Name] = f.Value.String()
		}
	})
	return p
}

// takeOver sets the flags that the job was given and that are not given again. It returns them as flags. Those about
// checkpoints, or about nodes, do not count where there are none.
func takeOver(fs *flag.FlagSet, from map[string]string, checkpoints, nodes bool) (flags []string, err error) {
	given := set(fs)
	for _, name := range planFlags {
		value, kept := from[name]
		if (name == "mtbf" || name == "stores") && given["ckpt-every"] {
			continue // another interval was chosen
		}
		if !kept || given[name] || !checkpoints && slices.Contains(ckptFlags, name) || !nodes && slices.Contains(nodesFlags, name) {
			continue
		}
		if err := fs.Set(name, value); err != nil {
			return nil, err
		}
		flags = append(flags, asGiven(fs.Lookup(name))...)
	}
	return flags, nil
}

// leftCommands are the commands that a job was given, as flags, if the command line does not give them again.
func leftCommands(fs *flag.FlagSet, from map[string]string) (flags []string) {
	given := set(fs)
	for _, name := range planCommands {
		if value := from[name]; value != "" && !given[name] {
			flags = append(flags, "-"+name, value)
		}
	}
	return flags
}

// carryOn keeps in the plan of a job on this machine alone what a former run was told of nodes: the next may have some.
func carryOn(plan, from map[string]string) {
	for _, name := range nodesFlags {
		if value, kept := from[name]; kept {
			plan[name] = value
		}
	}
}

// asGiven is a flag as it is typed.
func asGiven(f *flag.Flag) []string {
	value := f.Value.String()
	if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
		if value == "true" {
			return []string{"-" + f.Name}
		}
		return []string{"-" + f.Name + "=" + value}
	}
	return []string{"-" + f.Name, value}
}

// typed are words as a shell reads them.
func typed(words []string) string {
	var all []string
	for _, w := range words {
		if w == "" || strings.ContainsFunc(w, needsQuotes) {
			w = quote(w)
		}
		all = append(all, w)
	}
	return strings.Join(all, " ")
}

func needsQuotes(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && !strings.ContainsRune("-_./,:=+@%", r)
}
