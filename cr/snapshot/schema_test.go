package snapshot

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func schema() *Schema {
	return &Schema{
		Format: 1, Job: jobA, Incarnation: "aa", Sequence: 4, Created: time.Date(2026, 11, 21, 8, 0, 0, 5e6, time.UTC), NP: 2,
		Backend: "self", Transport: "tcp", Point: 9, Gate: 3e7, Lineage: []Ancestor{{"bb", 1}, {"cc", 2}},
		RPI: []string{"tcp", "shm"}, Params: map[string]string{"tcp.eager": "1024", "coll.bcast": "8:4k:linear \"x\""},
		Program:   Program{Path: "/x/solver", Digest: strings.Repeat("0f", 32), Kept: true, Dir: "/x", Args: []string{"-a", "'\"\n[[["}, Env: []string{"K=v=w"}},
		Placement: []Placement{{0, 0, "n0"}, {1, 1, "n1"}},
		Images: []Image{
			{Rank: 0, File: "rank-00000.img", Size: 10, Digest: strings.Repeat("12", 32), Codec: "none"},
			{Rank: 1, File: "rank-00001.img", Size: 20, Digest: strings.Repeat("34", 32), Codec: "zstd", Base: 3, Raw: 1 << 40, Pause: 7e6},
		},
	}
}

func TestSchemaRoundTrip(t *testing.T) {
	s := schema()
	p, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseSchema(p)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Fatalf("%v\n%+v\n%+v\n%s", err, got, s, p)
	}
}

// TestOldSchema reads what was written before there were chains and kept
// programs: none of their keys are there.
func TestOldSchema(t *testing.T) {
	s := schema()
	s.Format, s.Gate, s.Program.Kept, s.RPI, s.Params = 1, 0, false, nil, nil
	for i := range s.Images {
		s.Images[i].Base, s.Images[i].Raw, s.Images[i].Pause = 0, 0, 0
	}
	p, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"base", "raw", "pause", "gate", "kept", "rpi", "params"} {
		if strings.Contains(string(p), key+" =") {
			t.Errorf("%s in\n%s", key, p)
		}
	}
	got, err := ParseSchema(p)
	if err != nil || !reflect.DeepEqual(got, s) || got.Bases() != nil {
		t.Fatal(got, err)
	}
}

// Paths and variables of the operating system are bytes. The file is text all the same, and
// of strings that are text none looks different.
func TestSchemaBytes(t *testing.T) {
	s := schema()
	s.Format = Format
	s.Program.Path, s.Program.Dir = "/x/\xe9t\xe9", "/d\xff"
	s.Program.Args, s.Program.Env = []string{"x\xe9y", "zo\u00eb \\u0000e9", "\xe2\x82"}, []string{"N\xe9=v\xe9"}
	p, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"x\u0000e9y"`, `"/d\u0000ff"`, `"zo\u00eb `} {
		if unquoted := strings.ReplaceAll(want, `\u00eb`, "\u00eb"); !strings.Contains(string(p), unquoted) {
			t.Errorf("no %s in\n%s", unquoted, p)
		}
	}
	got, err := ParseSchema(p)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Fatalf("%v\n%+v\n%+v\n%s", err, got, s, p)
	}
}

func TestSchemaRefusals(t *testing.T) {
	for name, change := range map[string]func(s *Schema){
		"format 0":        func(s *Schema) { s.Format = 0 },
		"job":             func(s *Schema) { s.Job = "../../etc" },
		"run":             func(s *Schema) { s.Incarnation = "" },
		"sequence":        func(s *Schema) { s.Sequence = 0 },
		"np":              func(s *Schema) { s.NP = 3 },
		"huge np":         func(s *Schema) { s.NP = 1 << 30 },
		"back-end":        func(s *Schema) { s.Backend = "" },
		"path out":        func(s *Schema) { s.Images[1].File = "../rank" },
		"absolute":        func(s *Schema) { s.Images[1].File = "/etc/passwd" },
		"dots":            func(s *Schema) { s.Images[1].File = ".." },
		"schema as image": func(s *Schema) { s.Images[1].File = SchemaFile },
		"same file":       func(s *Schema) { s.Images[1].File = s.Images[0].File },
		"rank":            func(s *Schema) { s.Images[1].Rank = 0 },
		"size":            func(s *Schema) { s.Images[1].Size = -1 },
		"digest":          func(s *Schema) { s.Images[1].Digest = "12" },
		"base of itself":  func(s *Schema) { s.Images[1].Base = s.Sequence },
		"base":            func(s *Schema) { s.Images[1].Base = -1 },
		"raw":             func(s *Schema) { s.Images[1].Raw = 1 << 63 },
		"pause":           func(s *Schema) { s.Images[1].Pause = -1 },
		"gate":            func(s *Schema) { s.Gate = -1 },
		"codec":           func(s *Schema) { s.Images[1].Codec = "rot13" },
		"places":          func(s *Schema) { s.Placement = s.Placement[:1] },
		"place":           func(s *Schema) { s.Placement[1].Rank = 7 },
		"program":         func(s *Schema) { s.Program.Digest = "" },
		"environment":     func(s *Schema) { s.Program.Env = []string{"=x"} },
	} {
		s := schema()
		change(s)
		if _, err := s.Encode(); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseRefusals(t *testing.T) {
	good, err := schema().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name, text string
		want       error
	}{
		{"newer", "format = 9\nwhatever = [1]\n", ErrFormat},
		{"newer by far", strings.Replace(string(good), "format = 1", "format = 99", 1), ErrFormat},
		{"unknown key", "surprise = 1\n" + string(good), ErrSchema},
		{"empty", "", ErrSchema},
		{"not TOML", "\x7fELF", ErrSchema},
		{"not text", "a = \"\xff\"", ErrSchema},
		{"wrong type", strings.Replace(string(good), "np = 2", "np = \"2\"", 1), ErrSchema},
		{"deep array", "a = " + strings.Repeat("[", 1<<20), ErrSchema},
		{"deep tables", "a = " + strings.Repeat("{a=", 1<<20), ErrSchema},
		{"deep key", strings.Repeat("a.", 1<<20) + "a = 1", ErrSchema},
		{"deep behind a string", "x = '''a''''\na = " + strings.Repeat("[", 1<<20), ErrSchema},
		{"cut", string(good[:len(good)-30]), ErrSchema},
	} {
		if _, err := ParseSchema([]byte(x.text)); !errors.Is(err, x.want) {
			t.Errorf("%s: %.200v", x.name, err)
		}
	}
	if _, err := ParseSchema([]byte("format = 9")); err == nil || !strings.Contains(err.Error(), "format 9") || !strings.Contains(err.Error(), "newer gorun") {
		t.Error(err)
	}
}

// FuzzSchema checks that whatever is accepted is harmless and can be written
// and read again.
func FuzzSchema(f *testing.F) {
	good, err := schema().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(newest(f))
	f.Add([]byte("a = '''[['''\nb = \"\\\"[\"\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := ParseSchema(p)
		if err != nil {
			if !errors.Is(err, ErrSchema) && !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		for _, im := range s.Images {
			if strings.ContainsRune(im.File, '/') || im.File == ".." || im.Base < 0 || im.Base >= s.Sequence {
				t.Fatal(im.File)
			}
		}
		again, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSchema(again); err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
	})
}
