package head

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/job/stdio"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Where a snapshot stands, by what kind it is and how the life began that took it.
func TestInputOfSnapshots(t *testing.T) {
	whole := func() *snapshot.Snapshot {
		return &snapshot.Snapshot{Schema: &snapshot.Schema{Backend: "native"}}
	}
	h := &head{opt: spec.Options{CR: spec.CRAuto}, stdin: stdio.NewPump(strings.NewReader(""), nil)}
	took := func(began inputAt, native bool, taken, first int64, mode uint64) inputAt {
		inc := &incarnation{h: h, input: began, took: &oob.InputState{Taken: taken, First: first}}
		if native {
			inc.from = whole()
		}
		return inc.inputNow(mode)
	}
	check := func(what string, at inputAt, want ...stdio.Span) {
		t.Helper()
		if !slices.Equal(bytesOf(at.script, 60), bytesOf(want, 60)) || (at.script == nil) != (at.why != nil) {
			t.Errorf("%s: %v, %v; want %v", what, at.script, at.why, want)
		}
	}
	start := beginning(nil)
	check("self", took(start, false, 30, 10, oob.ModeSelf), span(0, 10), span(30, stdio.Rest))
	check("self, nothing before its first Point", took(start, false, 30, 0, oob.ModeSelf), span(30, stdio.Rest))
	check("self, of an older library", took(start, false, 30, -1, oob.ModeSelf))
	check("self, nothing read", took(start, false, 0, -1, oob.ModeSelf), span(0, stdio.Rest))
	second := took(start, false, 30, 10, oob.ModeSelf)
	check("self after self", took(second, false, 25, 10, oob.ModeSelf), span(0, 10), span(45, stdio.Rest))
	native := took(start, false, 30, 10, oob.ModeNative)
	check("native", native, span(30, stdio.Rest))
	check("native after native", took(native, true, 5, -1, oob.ModeNative), span(35, stdio.Rest))
	check("self after native", took(native, true, 5, -1, oob.ModeSelf), span(0, 10), span(35, stdio.Rest))
	early := took(start, false, 4, -1, oob.ModeNative)
	check("self after native before the first Point", took(early, true, 26, 6, oob.ModeSelf), span(0, 10), span(30, stdio.Rest))
	from := whole()
	check("self after another gorun's native, nothing read", took(beginning(from), true, 0, -1, oob.ModeSelf), span(0, stdio.Rest))
	from.Schema.Input = 3
	check("self after another gorun's native", took(beginning(from), true, 0, -1, oob.ModeSelf))
	check("native after another gorun's native", took(beginning(from), true, 8, -1, oob.ModeNative), span(8, stdio.Rest))
}

func span(from, to int64) stdio.Span { return stdio.Span{From: from, To: to} }

// bytesOf is what a script gives of a stream whose bytes are their own offsets.
func bytesOf(s stdio.Script, end int64) (b []int64) {
	for _, p := range s {
		for at := p.From; at < min(p.To, end); at++ {
			b = append(b, at)
		}
	}
	return b
}
