package pages

import (
	"strconv"
)

// List writes what ParseRuns reads: the type of a "pages" section.
type List struct {
	text     []byte
	kind     byte
	first, n int
}

// Add appends pages to the list; they come in order.
func (r *List) Add(kind byte, first, n int) {
	if r.n > 0 && r.kind == kind && r.first+r.n == first {
		r.n += n
		return
	}
	r.flush()
	r.kind, r.first, r.n = kind, first, n
}

func (r *List) flush() {
	if r.n == 0 {
		return
	}
	if len(r.text) > 0 {
		r.text = append(r.text, ' ')
	}
	r.text = strconv.AppendInt(append(r.text, r.kind), int64(r.first), 10)
	r.text = strconv.AppendInt(append(r.text, '+'), int64(r.n), 10)
	r.n = 0
}

// String is the list.
func (r *List) String() string {
	r.flush()
	return string(r.text)
}
