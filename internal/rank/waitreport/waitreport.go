// Package waitreport tells what the goroutines of a rank wait for in this library, since when, and
// where the program made the call. Nothing of this is recorded while messages travel. On request, a
// dump of all goroutines gives the places, and the engine gives the waits. This package puts the
// two together.
package waitreport

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
)

// Info is a rank's answer.
type Info struct {
	State  string `json:"state,omitempty"`  // what it does otherwise, or why the rest is unknown
	Waits  []Wait `json:"waits,omitempty"`  // calls of this library in progress
	Stacks string `json:"stacks,omitempty"` // of all goroutines, if they were asked for
	Still  bool   `json:"still,omitempty"`  // the program does nothing but wait in Waits, or in Finalize; in answer to LookStill
	Ended  bool   `json:"ended,omitempty"`  // it is in Finalize; likewise
}

// attended is the program that this process attends, which calls nothing of this library.
var attended atomic.Pointer[string]

// Attend records that the process itself only attends a program.
func Attend(program string) { attended.Store(&program) }

// Attended tells what a process does that attends a program, "" of others.
func Attended() string {
	if p := attended.Load(); p != nil {
		return "running " + *p
	}
	return ""
}

// Wait is one call of this library that is in progress.
type Wait struct {
	Call      string        `json:"call,omitempty"`      // the function that the program called, as in mpi.Recv; "": not known
	Site      string        `json:"site,omitempty"`      // the place of the call, as in /home/me/heat/main.go:40
	Goroutine int           `json:"goroutine,omitempty"` // by its number in the stacks
	What      string        `json:"what,omitempty"`      // what it waits for; "": nothing
	For       time.Duration `json:"for_ns,omitempty"`    // since it first slept

	// Which ranks can end it, as engine.Ends says. Only an answer to LookStill has these.
	Needs [][]int `json:"needs,omitempty"`
	Any   bool    `json:"any,omitempty"`
	Free  bool    `json:"free,omitempty"`

	kind string // of the engine's wait
}

// String returns one line.
func (w *Wait) String() string {
	s := w.Call
	if w.Site != "" {
		s += " at " + w.Site
	}
	if w.What != "" {
		if s != "" {
			s += ": "
		}
		s += w.What
	}
	if w.For > 0 {
		s += " for " + brief(w.For)
	}
	return s
}

// brief rounds a duration for people.
func brief(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Waiting returns a wait that the engine knows of. Kind is the method that made it: Recv, Send, Wait, WaitAny,
// Probe or Take.
func Waiting(kind, what string, since time.Duration) Wait {
	return Wait{What: what, For: since, kind: kind}
}

// Join puts the calls of a dump and the waits of the engine together. A wait and a call belong together if they
// are the only ones of their kind. So a rank's only waiting goroutine is always found. If several receive at
// the same time, nothing tells which waits for what. Waits of the library's own goroutines are left out.
func Join(calls []Call, waits []Wait) []Wait {
	found := make([]int, len(calls)) // number of the call's wait, and one
	taken := make([]bool, len(waits))
	may := func(i int) int { // the only call that may wait so
		return only(calls, func(k int) bool { return found[k] == 0 && calls[k].fits(waits[i].kind) })
	}
	for again := true; again; {
		again = false
		for i := range waits {
			c := may(i)
			if taken[i] || c < 0 || i != only(waits, func(k int) bool { return !taken[k] && may(k) == c }) {
				continue
			}
			found[c], taken[i], again = i+1, true, true
		}
	}
	var all []Wait
	for k, c := range calls {
		if c.Site == "" {
			continue
		}
		w := Wait{Call: c.Name, Site: c.Site, Goroutine: c.Goroutine}
		if i := found[k] - 1; i >= 0 {
			w.What, w.For, w.Needs, w.Any, w.Free = waits[i].What, waits[i].For, waits[i].Needs, waits[i].Any, waits[i].Free
		}
		all = append(all, w)
	}
	for i, w := range waits {
		if !taken[i] {
			all = append(all, w)
		}
	}
	return all
}

// only returns the one index that holds, or -1 if there is none or there are several.
func only[T any](list []T, holds func(int) bool) int {
	one := -1
	for i := range list {
		if holds(i) {
			if one >= 0 {
				return -1
			}
			one = i
		}
	}
	return one
}

// Report says in lines what ranks do. Ranks that do the same share their lines. ranks[i] answered infos[i]; nil
// is no answer.
func Report(ranks []int, infos []*Info) (lines []string) {
	var order []string
	like := map[string][]int{} // indexes
	for i := range ranks {
		key := infos[i].gist()
		if like[key] == nil {
			order = append(order, key)
		}
		like[key] = append(like[key], i)
	}
	for _, key := range order {
		var who []int
		for _, i := range like[key] {
			who = append(who, ranks[i])
		}
		slices.Sort(who)
		for _, text := range infos[like[key][0]].lines(len(who) > 1) {
			lines = append(lines, fmt.Sprintf("%s: %s", wireup.Ranks(who), text))
		}
	}
	return lines
}

// gist is equal for two ranks that do the same.
func (in *Info) gist() string {
	if in == nil {
		return "silent"
	}
	s := in.State
	for _, w := range in.Waits {
		s += fmt.Sprintf("\x00%s\x00%s\x00%s", w.Call, w.Site, w.kindOf())
	}
	return s
}

// kindOf returns the first word of what is waited for.
func (w *Wait) kindOf() string {
	for i, r := range w.What {
		if r == '(' || r == ' ' {
			return w.What[:i]
		}
	}
	return w.What
}

// lines returns an answer as lines. For several ranks they leave out what each waits for where a call is known:
// it differs from rank to rank, and the call tells it for the first.
func (in *Info) lines(several bool) (lines []string) {
	if in == nil {
		return []string{"no answer"}
	}
	if in.State != "" {
		lines = append(lines, in.State)
	}
	for _, w := range in.Waits {
		if several && w.Call != "" {
			w.What = ""
		}
		lines = append(lines, w.String())
	}
	if lines == nil {
		lines = []string{Computing}
	}
	return lines
}

// Lines returns one rank's answer as lines.
func (in *Info) Lines() []string { return in.lines(false) }

// Computing describes a rank that is in no call of this library.
const Computing = "computing outside the library"

// Unreceived is the warning about messages that no rank has received.
func Unreceived(n int, first []string) string {
	what, tail := "1 message was", ""
	if n != 1 {
		what = fmt.Sprintf("%d messages were", n)
	}
	if n > len(first) {
		tail = fmt.Sprintf("; and %d more", n-len(first))
	}
	return "warning: " + what + " never received: " + strings.Join(first, "; ") + tail
}
