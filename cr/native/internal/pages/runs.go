package pages

import (
	"fmt"
	"strconv"
	"strings"
)

// What a run of pages in a window is.
const (
	Data = 'd' // in this section
	Zero = 'z' // present and all zero
	Base = 'b' // as in the image this one builds on
)

// Run is a run of pages in a window.
type Run struct {
	Kind     byte
	First, N int // pages from the start of the window
	Data     int // if Kind is Data: number of pages of data before it in the section
}

// ParseRuns reads the type of a "pages" section, "d0+12 z12+3 b15+100", and
// returns the runs in order with the pages of data that the section holds.
func ParseRuns(typ string) (runs []Run, data int, err error) {
	if typ == "" {
		return nil, 0, nil
	}
	end := 0
	for word := range strings.SplitSeq(typ, " ") {
		r, err := parseRun(word)
		if err != nil {
			return nil, 0, err
		}
		if r.First < end || r.N > PerWindow-r.First {
			return nil, 0, fmt.Errorf("pages %.40q lie outside of the window or overlap those before", word)
		}
		end = r.First + r.N
		if r.Kind == Data {
			r.Data = data
			data += r.N
		}
		runs = append(runs, r)
	}
	return runs, data, nil
}

func parseRun(word string) (Run, error) {
	first, n, ok := strings.Cut(word[min(1, len(word)):], "+")
	if !ok {
		return Run{}, fmt.Errorf("run of pages %.40q", word)
	}
	r := Run{Kind: word[0]}
	var err1, err2 error
	r.First, err1 = parsePages(first)
	r.N, err2 = parsePages(n)
	if err1 != nil || err2 != nil || r.N == 0 || r.Kind != Data && r.Kind != Zero && r.Kind != Base {
		return Run{}, fmt.Errorf("run of pages %.40q", word)
	}
	return r, nil
}

func parsePages(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err == nil && n > PerWindow {
		err = strconv.ErrRange
	}
	return int(n), err
}

// ParseWindow reads the name of a "pages" section: where its window begins.
func ParseWindow(name string) (uint64, error) {
	base, err := strconv.ParseUint(name, 16, 64)
	if err != nil || fmt.Sprintf("%012x", base) != name || base%Window != 0 || base >= EndOfUser {
		return 0, fmt.Errorf("window %.40q", name)
	}
	return base, nil
}
