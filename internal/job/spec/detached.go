package spec

import (
	"fmt"
	"strings"
)

// OutputName is the name of the output file of a job that was started with -detach. n counts its
// restarts, from 1.
func OutputName(job string, n int) string {
	if n > 1 {
		return fmt.Sprintf("gorun-%s.%d.out", job, n)
	}
	return "gorun-" + job + ".out"
}

// IsOutput reports whether a file has a name of that kind, of any job.
func IsOutput(name string) bool {
	job, isOut := strings.CutSuffix(name, ".out")
	job, isGorun := strings.CutPrefix(job, "gorun-")
	job, _, _ = strings.Cut(job, ".")
	return isOut && isGorun && job != "" && strings.Trim(job, "0123456789abcdef-") == ""
}
