package command

import (
	"flag"
	"slices"
)

// planFlags say how a job is called and placed, when and how it is checkpointed and started again, and where its output
// goes. A job keeps in its snapshots which of them it was given, and a restart takes them over. So a job does in
// its second time slot what it did in the first.
var planFlags = append(slices.Clone(ckptFlags), "restarts", "map", "bind", "output-dir", "name")

// ckptFlags are the plan's flags that make no sense without -cr.
var ckptFlags = []string{"ckpt-every", "ckpt-on-signal", "ckpt-codec", "ckpt-exit-status", "ckpt-full-every", "ckpt-local", "keep"}

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

// takeOver sets the flags that the job was given and that are not given anew. It returns them as flags. Without
// checkpoints, flags about them do not count.
func takeOver(fs *flag.FlagSet, from map[string]string, checkpoints bool) (flags []string, err error) {
	given := set(fs)
	for _, name := range planFlags {
		value, kept := from[name]
		if !kept || given[name] || !checkpoints && slices.Contains(ckptFlags, name) {
			continue
		}
		if err := fs.Set(name, value); err != nil {
			return nil, err
		}
		flags = append(flags, "-"+name, value)
	}
	return flags, nil
}
