package program

import "github.com/gorun-mpi/gorun/launcher"

// Attend returns the command of a rank that attends a program: gorun, which is at self. See package
// initproc.
func Attend(self, program string, args []string) []string {
	return append([]string{self, launcher.InitVerb, program}, args...)
}

// Attended returns the program that a rank attends, with its arguments. For a rank that attends
// none it returns the rank's own command, and false.
func Attended(program string, args []string) (string, []string, bool) {
	if len(args) > 1 && args[0] == launcher.InitVerb {
		return args[1], args[2:], true
	}
	return program, args, false
}
