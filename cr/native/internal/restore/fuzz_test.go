package restore

import (
	"encoding/json"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// FuzzRestore feeds states to everything that looks at them before a process is
// started: none of it may fail in any other way than by an error.
func FuzzRestore(f *testing.F) {
	s := testState(0,
		state.Region{Start: 0x400000, End: 0x500000, Prot: 5, Path: "/bin/program"},
		state.Region{Start: 0xc000000000, End: 0xc004000000, Prot: 3, Path: "[anon: Go: heap]", Flags: "rd wr nh"},
		state.Region{Start: 0x7fff00000000, End: 0x7fff00021000, Prot: 3, Path: "[stack]", Flags: "rd wr gd"},
	)
	s.VDSO = state.VDSO{Start: 0x7ffff7fc3000, End: 0x7ffff7fc5000, Symbols: map[string]uint64{"__vdso_time": 0x900},
		VVar: []state.Region{{Start: 0x7ffff7fbd000, End: 0x7ffff7fc1000}, {Start: 0x7ffff7fc1000, End: 0x7ffff7fc3000}}}
	seed, err := json.Marshal(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, "d0+1 z1+1")
	f.Fuzz(func(t *testing.T, p []byte, typ string) {
		var s state.State
		if json.Unmarshal(p, &s) != nil || s.Validate() != nil {
			return
		}
		runs, _, err := pages.ParseRuns(typ)
		if err == nil {
			c := chain{&layer{state: &s, windows: map[uint64][]pages.Run{0xc000000000: runs, 0x400000: runs}}}
			c.plan()
		}
		sh := &shell{vdso: state.VDSO{Start: 0x7ffff7fc3000, End: 0x7ffff7fc5000}}
		if l, err := layOut(&s, sh, 1<<20, true); err == nil {
			for _, e := range []pages.Extent{{Start: l.scratch, End: l.scratch + 1<<20}, {Start: l.vdso, End: l.vdso + 0x2000}, {Start: l.park, End: l.park + 0x2000}} {
				if s.Overlaps(e.Start, e.End) || e.End > pages.EndOfUser || e.Start < pages.Lowest {
					t.Fatalf("%#x to %#x is not free", e.Start, e.End)
				}
			}
		}
	})
}
