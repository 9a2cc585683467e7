package proc

import (
	"bytes"
	"slices"
	"strings"
)

// IdentityLines are the lines of status that say who a thread is.
var IdentityLines = []string{"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "Seccomp", "Seccomp_filters"}

// ParseIdentity takes those lines from /proc/PID/status, by their names.
func ParseIdentity(p []byte) (map[string]string, error) {
	id := map[string]string{}
	eachLine(p, func(line []byte) error {
		key, value, _ := bytes.Cut(line, []byte{':'})
		if slices.Contains(IdentityLines, string(key)) {
			id[string(key)] = strings.Join(strings.Fields(string(value)), " ")
		}
		return nil
	})
	if len(id) < 4 {
		return nil, bad("status", p)
	}
	return id, nil
}
