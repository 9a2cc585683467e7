package program

import (
	"debug/buildinfo"
	"os/exec"
	"runtime/debug"
	"slices"
)

// module is what a program has in it that may call Init.
const module = "github.com/gorun-mpi/gorun"

// Foreign finds the executable of a command of which nothing calls Init, such as a script or a program in C. Path is empty if
// something may: the program itself, or what an argument names, as behind numactl; or if there is no executable yet.
func Foreign(args []string, dir string) (path string) {
	var p Program
	if err := p.Find(args[0], dir); err != nil || p.IsSource() || ours(p.Path) {
		return ""
	}
	for _, arg := range args[1:] {
		if found, err := exec.LookPath(arg); err == nil && ours(found) {
			return ""
		}
	}
	return p.Path
}

// ours reports whether an executable has this module in it.
func ours(path string) bool {
	info, err := buildinfo.ReadFile(path)
	return err == nil && (info.Main.Path == module || slices.ContainsFunc(info.Deps, func(m *debug.Module) bool { return m.Path == module }))
}
