package cli

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/term"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/launcher"
)

var infoCommand = command{
	name: "info", short: "list modules, their parameters and paths",
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		return func(args []string) int {
			if len(args) > 0 {
				return usage(std, "info takes no arguments")
			}
			return failed(std, info(std))
		}
	},
}

func info(std stdio) error {
	l := listing{to: std.out, width: widthOf(std.out)}
	l.line("gorun", fmt.Sprintf("%s, %s, %s/%s", launcher.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH), "")
	if dir, err := ckptDir(""); err == nil {
		l.line("snapshots", printable(dir), "")
	}
	l.line("running jobs", strings.Join(control.Places(), ", "), "")
	for _, t := range transports() {
		l.line("transport (-rpi)", t, "")
		if params := parameters[t]; params != nil {
			for _, p := range params() {
				l.parameter(p.Name, p.Default, p.Doc)
			}
		}
		if t == "rdma" {
			for _, p := range providers() {
				l.line("  provider", p.name, p.doc)
			}
		}
	}
	for _, p := range spec.Parameters() {
		l.parameter(p.Name, p.Default, p.Doc)
	}
	l.line("back-end (-cr)", portable.name, portable.doc)
	for _, i := range whole.All() {
		l.imager(i)
	}
	for _, b := range absent {
		if _, err := whole.Find(b.name); err != nil {
			doc := b.doc
			if _, err := exec.LookPath(b.name); err != nil {
				doc += "; and " + b.name + " is not in PATH"
			}
			l.line("back-end (-cr)", b.name, doc)
		}
	}
	for _, c := range []string{"none", "snappy", "zstd"} {
		l.line("codec (-ckpt-codec)", c, "")
	}
	for _, s := range stores {
		l.line("store", s.name, s.doc)
	}
	for _, m := range managers {
		l.line("manager (-manager)", m.name, m.doc)
	}
	return l.err
}

// listing prints the modules in lines no wider than the terminal.
type listing struct {
	to    io.Writer
	width int
	err   error
}

const (
	kindWidth  = 22 // columns of the kind, in front of the name
	leastText  = 20 // columns for text on a terminal however narrow
	usualWidth = 80
)

// widthOf returns the number of columns of a terminal. For another output it returns a default.
func widthOf(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return usualWidth
}

// line prints a kind, a name and a text: behind the name if there is room, else below it.
func (l *listing) line(kind, name, doc string) {
	head := fmt.Sprintf("%-*s", kindWidth, kind)
	switch rest := l.width - kindWidth - len(name) - 2; {
	case doc == "":
		l.put(head, wrap(name, l.width-kindWidth))
	case len(doc) <= rest:
		l.put(head, []string{name + "  " + doc})
	default:
		l.put(head, wrap(name, l.width-kindWidth))
		l.put(strings.Repeat(" ", kindWidth+2), wrap(doc, l.width-kindWidth-2))
	}
}

// put prints lines, the first behind head, the others below it.
func (l *listing) put(head string, lines []string) {
	for _, text := range lines {
		if _, err := fmt.Fprintln(l.to, strings.TrimRight(head+text, " ")); l.err == nil {
			l.err = err
		}
		head = strings.Repeat(" ", len(head))
	}
}

func (l *listing) parameter(name, value, doc string) {
	l.line("  parameter (-param)", name+"="+value, doc)
}

// imager lists a back-end that images whole processes, and what it finds on this
// machine.
func (l *listing) imager(i whole.Imager) {
	doc := i.Doc()
	if err := i.Supported(); err != nil {
		doc = fmt.Sprintf("cannot be used here: %v", err)
	}
	l.line("back-end (-cr)", i.Name(), doc)
	for _, f := range i.Features() {
		state := "yes"
		if f.Err != nil {
			state = fmt.Sprintf("no: %v", f.Err)
		}
		l.line("  feature", f.Name+":", state)
	}
	if t, ok := i.(whole.Tunable); ok {
		for _, p := range t.Parameters() {
			l.parameter(p.Name, p.Default, p.Doc)
		}
	}
}

// wrap cuts text into lines of at most width columns. It cuts between words. A word that is too long is cut
// behind a slash or a comma, or anywhere if it has none.
func wrap(text string, width int) (lines []string) {
	width = max(width, leastText)
	for len(text) > width {
		cut := strings.LastIndexByte(text[:width+1], ' ')
		if cut <= 0 {
			cut = 1 + strings.LastIndexAny(text[:width], "/,")
		}
		if cut <= 0 {
			cut = width
		}
		lines = append(lines, text[:cut])
		text = strings.TrimLeft(text[cut:], " ")
	}
	return append(lines, text)
}
