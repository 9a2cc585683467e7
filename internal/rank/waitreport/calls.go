package waitreport

import (
	"bytes"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Call is a goroutine that is in a call of this library.
type Call struct {
	Goroutine int
	Name      string // the function that the program called, as in mpi.Recv
	Site      string // the place of the call; "": the call is the library's own
	Method    string // the engine's method that it is in; "": none
}

// Blocking reports whether the call is in a method of the engine that waits.
func (c *Call) Blocking() bool {
	switch c.Method {
	case "Recv", "Send", "Wait", "WaitAny", "Probe", "Mprobe", "Take", "Together", "Exchange":
		return true
	}
	return false
}

// Active returns how many goroutines of the program in a dump do not wait in a call of this
// library, for a lock or for a sync.WaitGroup. One that waits for a channel may wait for a clock or
// a device: it counts.
func Active(dump []byte) (n int) {
	for part := range bytes.SplitSeq(dump, []byte("\n\n")) {
		lines := strings.Split(strings.TrimRight(string(part), "\n"), "\n")
		if _, ok := header(lines[0]); !ok {
			continue
		}
		_, inCall := callOf(lines)
		if inCall || !programs(lines) {
			continue
		}
		_, state, _ := strings.Cut(lines[0], "[")
		if !strings.HasPrefix(state, "sync.") && !strings.HasPrefix(state, "semacquire") {
			n++
		}
	}
	return n
}

// programs reports whether a goroutine is the program's: it is in a function of it, or was begun by one.
func programs(lines []string) bool {
	for _, line := range lines[1:] {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		function, created := strings.CutPrefix(line, "created by ")
		function, _, _ = strings.Cut(function, " in goroutine ")
		if created {
			function += "()"
		}
		if pkg, _ := split(function); !standard(pkg) && !library(pkg) {
			return true
		}
	}
	return false
}

const (
	module   = "github.com/gorun-mpi/gorun/"
	enginePk = module + "internal/rank/engine"

	leastDump, mostDump = 64 << 10, 8 << 20
)

// Dump returns the stacks of all goroutines of this process but the calling one. If there are very many, it
// returns the first.
func Dump() []byte {
	for size := leastDump; ; size *= 4 {
		p := make([]byte, size)
		if n := runtime.Stack(p, true); n < size || size >= mostDump {
			_, others, _ := bytes.Cut(p[:n], []byte("\n\n")) // the caller's comes first
			return others
		}
	}
}

// Self returns the number that the calling goroutine has in dumps.
func Self() int {
	p := make([]byte, 64)
	n, _ := header(string(p[:runtime.Stack(p, false)]))
	return n
}

// Calls finds the calls of this library in a dump.
func Calls(dump []byte) (calls []Call) {
	for part := range bytes.SplitSeq(dump, []byte("\n\n")) {
		if c, ok := callOf(strings.Split(string(part), "\n")); ok {
			calls = append(calls, c)
		}
	}
	return calls
}

// Parents tells which goroutine has started each goroutine in a dump.
func Parents(dump []byte) map[int]int {
	all := map[int]int{}
	for part := range bytes.SplitSeq(dump, []byte("\n\n")) {
		lines := strings.Split(string(part), "\n")
		if n, ok := header(lines[0]); ok {
			for _, line := range lines[1:] {
				if by := parent(line); by != 0 {
					all[n] = by
				}
			}
		}
	}
	return all
}

// parent reads the line "created by F in goroutine N". It returns 0 for another line.
func parent(line string) (number int) {
	function, created := strings.CutPrefix(line, "created by ")
	if _, by, found := strings.Cut(function, " in goroutine "); created && found {
		number, _ = strconv.Atoi(by)
	}
	return number
}

// callOf reads the stack of one goroutine, from the innermost frame outwards: first Go's own frames, then those
// of the library, then the program's.
func callOf(lines []string) (c Call, ok bool) {
	if c.Goroutine, ok = header(lines[0]); !ok {
		return c, false
	}
	inside := false
	for i := 1; i+1 < len(lines); i += 2 {
		if strings.HasPrefix(lines[i], "created by ") {
			break
		}
		pkg, name := split(lines[i])
		switch {
		case c.Site != "" || standard(pkg):
		case library(pkg):
			inside = true
			c.enter(pkg, name)
		case !inside: // it computes, perhaps in the function given to Run
			return c, false
		default:
			c.Site = place(lines[i+1])
		}
	}
	return c, inside
}

// enter records a frame of the library outside those recorded before.
func (c *Call) enter(pkg, name string) {
	method := name[strings.LastIndexByte(name, '.')+1:]
	if method == "" || method[0] < 'A' || method[0] > 'Z' {
		return
	}
	if pkg == enginePk {
		c.Method = method
		return
	}
	if short := strings.TrimPrefix(pkg, module); slices.Contains(public, short) {
		if name != "Run" || c.Name == "" { // Run calls Finalize, which says more
			c.Name = short + "." + strings.NewReplacer("(*", "", ")", "", "[...]", "").Replace(name)
		}
	}
}

// fits reports whether the call may wait in this way. A blocking call of a step of a collective waits as a
// receive or as a send.
func (c *Call) fits(kind string) bool {
	switch c.Method {
	case "Together", "Exchange":
		return kind == "Recv" || kind == "Send"
	case "Mprobe":
		return kind == "Probe"
	}
	return c.Method == kind
}

// header reads the line that begins a goroutine's stack.
func header(line string) (number int, ok bool) {
	rest, ok := strings.CutPrefix(line, "goroutine ")
	if !ok {
		return 0, false
	}
	digits, _, _ := strings.Cut(rest, " ")
	number, err := strconv.Atoi(digits)
	return number, err == nil
}

// split returns the package of a function and its name there, without arguments:
// "a/b.(*T).M(0x1, ...)" is in a/b and called (*T).M.
func split(function string) (pkg, name string) {
	if i := strings.LastIndexByte(function, '('); i > 0 && strings.HasSuffix(function, ")") {
		function = function[:i]
	}
	slash := strings.LastIndexByte(function, '/') + 1
	dot := strings.IndexByte(function[slash:], '.')
	if dot < 0 {
		return "", function
	}
	name = strings.TrimSuffix(function[slash+dot+1:], "[...]")
	return function[:slash+dot], name
}

// library reports whether a package is part of this library, and not of a program.
func library(pkg string) bool {
	rest, ok := strings.CutPrefix(pkg, module)
	if !ok || strings.HasSuffix(pkg, "_test") {
		return false
	}
	first, _, _ := strings.Cut(rest, "/")
	return slices.Contains(public, first) || first == "rpi" || first == "bookmarks" || first == "internal"
}

// public are the packages whose calls programs wait in.
var public = []string{"mpi", "cr", "device", "dist", "rdma"}

// standard reports whether a package is Go's own, or stands for it. Such frames may also lie within the
// library's, or between the library's and the program's.
func standard(pkg string) bool {
	if pkg == "panic" || strings.HasPrefix(pkg, "golang.org/x/sys/") {
		return true
	}
	first, _, _ := strings.Cut(pkg, "/")
	return slices.Contains(strings.Fields(standardRoots), first)
}

const standardRoots = `archive bufio bytes cmp compress container context crypto database debug embed encoding
	errors expvar flag fmt go hash html image index internal io iter log maps math mime net os path plugin
	reflect regexp runtime slices sort strconv strings structs sync syscall testing text time unicode unique
	unsafe vendor weak`

// place reads the second line of a frame: "\t/a/b.go:12 +0x1d".
func place(line string) string {
	line = strings.TrimPrefix(line, "\t")
	if i := strings.LastIndex(line, " +0x"); i > 0 {
		line = line[:i]
	}
	return line
}
