package capture

import (
	"os"
	"strings"
	"sync"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
)

// identity is who a thread is to the kernel and what the kernel lets it do: by the
// name of a line of /proc/PID/status, of a link in /proc/PID/ns, or "root".
//
// No user can give a process more rights than the user's own. To give it fewer, in
// the order in which it gave them up, would be a matter of luck. So a program has to
// be what a restored one will be: what a process is that the agent starts.
type identity map[string]string

// namespaces are the names of the links that the kernel here has.
var namespaces = sync.OnceValue(func() []string {
	entries, _ := os.ReadDir("/proc/self/ns")
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
})

// differs refuses what is not as it is in want, most telling first.
func (id identity) differs(want identity) error {
	const elsewhere = "a restart could not do that: start gorun that way, instead of changing it in the program, or use -cr=self"
	is := func(name string) bool { return id[name] == want[name] }
	switch {
	case !is("Seccomp") || !is("Seccomp_filters"):
		return refusal.New("install no seccomp filter in the program", "it runs under a seccomp filter of its own")
	case !is("root"):
		return refusal.New(elsewhere, "its root folder is %s", id["root"])
	}
	for _, name := range namespaces() {
		if !is(name) {
			return refusal.New(elsewhere, "it is in a namespace of its own (%s)", name)
		}
	}
	for _, name := range proc.IdentityLines {
		if is(name) {
			continue
		}
		what := "user or group"
		if strings.HasPrefix(name, "Cap") {
			what = "capabilities"
		}
		return refusal.New(elsewhere, "it has changed its %s (%s is %s, of what gorun starts %s)", what, name, id[name], want[name])
	}
	return nil
}
