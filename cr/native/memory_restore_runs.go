package native

import (
	"fmt"
	"strconv"
	"strings"
)

// What a run of pages in a window is.
const (
	runData = 'd' // in this section
	runZero = 'z' // present and all zero
	runBase = 'b' // as in the image this one builds on
)

// pageRun is a run of pages in a window.
type pageRun struct {
	kind     byte
	first, n int // pages from the start of the window
	data     int // runData: number of pages of data before it in the section
}

// parseRuns reads the type of a "pages" section, "d0+12 z12+3 b15+100", and
// returns the runs in order with the pages of data that the section holds.
func parseRuns(typ string) (runs []pageRun, data int, err error) {
	if typ == "" {
		return nil, 0, nil
	}
	end := 0
	for word := range strings.SplitSeq(typ, " ") {
		r, err := parseRun(word)
		if err != nil {
			return nil, 0, err
		}
		if r.first < end || r.n > windowPages-r.first {
			return nil, 0, fmt.Errorf("pages %.40q lie outside of the window or overlap those before", word)
		}
		end = r.first + r.n
		if r.kind == runData {
			r.data = data
			data += r.n
		}
		runs = append(runs, r)
	}
	return runs, data, nil
}

func parseRun(word string) (pageRun, error) {
	first, n, ok := strings.Cut(word[min(1, len(word)):], "+")
	if !ok {
		return pageRun{}, fmt.Errorf("run of pages %.40q", word)
	}
	r := pageRun{kind: word[0]}
	var err1, err2 error
	r.first, err1 = parsePages(first)
	r.n, err2 = parsePages(n)
	if err1 != nil || err2 != nil || r.n == 0 || r.kind != runData && r.kind != runZero && r.kind != runBase {
		return pageRun{}, fmt.Errorf("run of pages %.40q", word)
	}
	return r, nil
}

func parsePages(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err == nil && n > windowPages {
		err = strconv.ErrRange
	}
	return int(n), err
}

// parseWindow reads the name of a "pages" section: where its window begins.
func parseWindow(name string) (uint64, error) {
	base, err := strconv.ParseUint(name, 16, 64)
	if err != nil || fmt.Sprintf("%012x", base) != name || base%Window != 0 || base >= endOfUser {
		return 0, fmt.Errorf("window %.40q", name)
	}
	return base, nil
}
