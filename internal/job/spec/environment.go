package spec

import (
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// usual are the variables that a snapshot keeps without being asked: they change what a program computes or prints,
// tell no secret and mean the same elsewhere.
var usual = []string{"LANG", "LANGUAGE", "TZ", "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "GOTRACEBACK", "OMP_NUM_THREADS"}

func isUsual(name string) bool { return slices.Contains(usual, name) || strings.HasPrefix(name, "LC_") }

// KeptEnv picks what a snapshot keeps of an environment; also names more.
func KeptEnv(env, also []string) []string {
	var kept []string
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); isUsual(name) || slices.Contains(also, name) {
			kept = append(kept, kv)
		}
	}
	return kept
}

// split divides the variables of a snapshot into those that a restart takes, and the names of those
// that it leaves. A user who runs the program of a snapshot trusts the snapshot, and so its
// environment. To the user's own program a snapshot is only data: a variable could make the program
// load a library or run a command. So it gets only the usual variables that name no file.
func split(s *snapshot.Snapshot, ownProgram bool) (taken, left []string) {
	for _, kv := range s.Schema.Program.Env {
		name, value, _ := strings.Cut(kv, "=")
		if ownProgram && (!isUsual(name) || namesFile(value)) {
			left = append(left, name)
			continue
		}
		taken = append(taken, kv)
	}
	return taken, left
}

// namesFile reports whether the value of TZ or a locale is a path, and not a name such as
// Europe/Berlin.
func namesFile(value string) bool {
	return strings.HasPrefix(strings.TrimPrefix(value, ":"), "/") || strings.Contains(value, "..")
}

// LeftEnv names the variables of a snapshot that a restart with a program of the user's own does not take, and that
// the options do not set.
func (o *Options) LeftEnv(s *snapshot.Snapshot) []string {
	_, left := split(s, true)
	return slices.DeleteFunc(left, func(name string) bool { return slices.Contains(o.KeepEnv, name) })
}
