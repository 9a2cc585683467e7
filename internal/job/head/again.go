package head

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/job/stdio"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/system/outfile"
)

// Effects that a restart cannot take back come twice: output that has left gorun, and writes to
// files that no image knows because they were not open in it. Users are told.

// printed counts the lines that the ranks have printed up to where the present life stands.
type printed struct {
	lines    int
	captured int // up to the newest capture of a rank
}

// count takes what a rank has printed.
func (p *printed) count(m *oob.Msg) { p.lines += bytes.Count(m.Data, []byte("\n")) }

// sayAgain tells the user what comes twice in a life that is not the job's first.
func (inc *incarnation) sayAgain() {
	h := inc.h
	since, lines := h.began, 0
	if inc.from != nil {
		since = inc.from.Schema.Created
		m, _ := h.markOf(inc.from)
		lines = m.lines
	}
	if n := h.printed.lines - lines; n > 0 && h.files == nil {
		h.say("%s of output printed since then: what the program prints again comes twice", plural(n, "line"))
	}
	h.printed.lines = lines
	if inc.from == nil || inc.wholeFrom() {
		go inc.findChanged(since)
	}
}

// mostChanged is how many files are named.
const mostChanged = 5

// findChanged finds files in the working folder that were written to since, and that no image has
// open. It is called beside the loop.
func (inc *incarnation) findChanged(since time.Time) {
	h := inc.h
	changed := outfile.Changed(h.opt.Dir, since)
	if len(changed) == 0 {
		return
	}
	var open []string
	if inc.from != nil {
		var err error
		if open, err = spec.Outputs(inc.from); err != nil {
			return // the restart tells
		}
	}
	open = append(open, h.storage.FormerStreams()...)
	changed = slices.DeleteFunc(changed, func(path string) bool { return slices.Contains(open, path) || h.owns(path) })
	if len(changed) == 0 {
		return
	}
	names := make([]string, 0, mostChanged)
	for _, path := range changed[:min(len(changed), mostChanged)] {
		names = append(names, filepath.Base(path))
	}
	more := ""
	if n := len(changed) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	what := "the job began, and stay as they are"
	if inc.from != nil {
		what = "the snapshot, were not open in it, and stay as they are"
	}
	h.post(func() {
		h.say("warning: files in %s were written to after %s: %s%s; what the program appends to them again comes twice", h.opt.Dir, what, strings.Join(names, ", "), more)
	})
}

// owns reports whether a file is gorun's own, or one of its standard streams.
func (h *head) owns(path string) bool {
	st, err := os.Stat(path)
	if err != nil {
		return true // it is gone
	}
	for _, s := range []any{h.opt.Stdin, h.opt.Stdout, h.opt.Stderr} {
		if f, ok := s.(*os.File); ok {
			if its, err := f.Stat(); err == nil && os.SameFile(st, its) {
				return true
			}
		}
	}
	if spec.IsOutput(filepath.Base(path)) {
		return true // of a former gorun of a detached job
	}
	id, err := os.Stat(h.opt.JobIDFile)
	return err == nil && os.SameFile(st, id) || filepath.Dir(path) == h.opt.OutputDir
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// comesBack reports whether an incarnation repeats effects of an earlier one: it is not the first
// of this gorun, or goes on from whole processes that wrote to files after they were imaged.
func (inc *incarnation) comesBack() bool { return inc.n > 1 || inc.wholeFrom() }

// tookOutput notes how much a rank had printed when it was captured.
func (inc *incarnation) tookOutput(m *oob.Msg) {
	h := inc.h
	h.printed.captured = h.printed.lines
	var s oob.InputState
	if len(m.Data) == 0 || json.Unmarshal(m.Data, &s) != nil || len(s.Printed) != 2 {
		delete(inc.printed, int(m.From))
		return
	}
	if inc.printed == nil {
		inc.printed = map[int][]int64{}
	}
	inc.printed[int(m.From)] = s.Printed
}

// printedAt is how much each rank had printed to the files of -output-dir, as they were captured; nil: there are no files, or it is not known.
func (inc *incarnation) printedAt() (at [][]int64) {
	files := inc.h.files
	if files == nil || inc.moves {
		return nil
	}
	for rank := range inc.h.opt.NP {
		p := inc.printed[rank]
		if p == nil {
			return nil
		}
		at = append(at, []int64{files.Began(rank, 1) + p[0], files.Began(rank, 2) + p[1]})
	}
	return at
}

// beginOutput brings the files of -output-dir to where the life begins.
func (inc *incarnation) beginOutput() {
	h := inc.h
	if h.files == nil {
		return
	}
	var at [][]int64
	switch {
	case inc.from != nil:
		at = inc.from.Schema.Printed
	case h.opt.From == nil: // the start of this job
		at = make([][]int64, h.opt.NP)
		for rank := range at {
			at[rank] = []int64{0, 0}
		}
	}
	if len(at) != h.opt.NP || slices.ContainsFunc(at, func(p []int64) bool { return len(p) != 2 || p[0] < 0 || p[1] < 0 }) {
		if at = nil; inc.n > 1 || inc.from != nil {
			h.say("the files in %s are not cut to what they held at the snapshot, which does not tell: what the program prints again comes twice", h.opt.OutputDir)
		}
	}
	for stream := 1; stream <= 2; stream++ {
		var to []int64
		if stream == 1 { // standard error says why a rank has died, so it stays
			for _, p := range at {
				to = append(to, p[0])
			}
		}
		h.printer.Print(stdio.Piece{Rank: -1, Stream: stream, Credit: func(int) {}, Do: func() {
			if err := h.files.Begin(stream, to); err != nil {
				go h.post(func() { h.say("-output-dir: %v", err) })
			}
		}})
	}
}
