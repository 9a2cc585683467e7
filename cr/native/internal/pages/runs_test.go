package pages

import (
	"fmt"
	"testing"
)

func TestParseRuns(t *testing.T) {
	for _, c := range []struct {
		typ  string
		data int
		want string // "" where it is refused
	}{
		{"", 0, "[]"},
		{"d0+12 z12+3 b15+100", 12, "[{100 0 12 0} {122 12 3 0} {98 15 100 0}]"},
		{"d0+1 b1+2 d5+3", 4, "[{100 0 1 0} {98 1 2 0} {100 5 3 1}]"},
		{"d1023+1", 1, "[{100 1023 1 0}]"},
		{"d0+1024", 1024, "[{100 0 1024 0}]"},
		{"d0+1025", 0, ""},
		{"d1023+2", 0, ""},
		{"d1024+1", 0, ""},
		{"d0+0", 0, ""},
		{"d5+1 d3+1", 0, ""},
		{"d5+2 z6+1", 0, ""},
		{"x0+1", 0, ""},
		{"d+1", 0, ""},
		{"d-1+1", 0, ""},
		{"d0+1  z1+1", 0, ""},
		{" ", 0, ""},
		{"d", 0, ""},
		{"d99999999999999999999+1", 0, ""},
	} {
		runs, data, err := ParseRuns(c.typ)
		if (err == nil) != (c.want != "") {
			t.Errorf("%q: %v", c.typ, err)
			continue
		}
		if got := fmt.Sprint(runs); err == nil && (got != c.want || data != c.data) {
			t.Errorf("%q: %s with %d pages of data, want %s with %d", c.typ, got, data, c.want, c.data)
		}
	}
}

func FuzzRuns(f *testing.F) {
	for _, s := range []string{"d0+12 z12+3 b15+100", "d1023+1", "", "d0+1 d1+1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, typ string) {
		runs, data, err := ParseRuns(typ)
		if err != nil {
			return
		}
		end, sum := 0, 0
		for _, r := range runs {
			if r.First < end || r.N < 1 || r.First+r.N > PerWindow {
				t.Fatalf("%q gives %v", typ, runs)
			}
			if r.Kind == Data {
				if r.Data != sum {
					t.Fatalf("%q gives %v", typ, runs)
				}
				sum += r.N
			}
			end = r.First + r.N
		}
		if sum != data {
			t.Fatalf("%q: %d pages of data, %d said", typ, sum, data)
		}
	})
}

func TestParseWindow(t *testing.T) {
	if base, err := ParseWindow("00c000400000"); err != nil || base != 0xc000400000 {
		t.Errorf("%#x, %v", base, err)
	}
	for _, name := range []string{"", "c000400000", "00c000400001", "00C000400000", "ffffffffff600000", "7fffffffffff", "+0c000400000"} {
		if base, err := ParseWindow(name); err == nil {
			t.Errorf("%q is taken for %#x", name, base)
		}
	}
}
