package rawstring

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	for s, want := range map[string]string{
		"":                          "",
		"/home/zoë/\\u0000e9 \n":    "/home/zoë/\\u0000e9 \n",
		"x\xe9y":                    "x\x00e9y",
		"\xff\xfe":                  "\x00ff\x00fe",
		"\xe2\x82":                  "\x00e2\x0082", // half a sequence
		"\xed\xa0\x80":              "\x00ed\x00a0\x0080",
		"a\x00b":                    "a\x0000b",
		"\uFFFD":                    "\uFFFD", // what others make of a byte that is not UTF-8
		"x\xe9" + "41\x00" + "\x00": "x\x00e941\x0000\x0000",
	} {
		if got := Escape(s); got != want {
			t.Errorf("Escape(%q) = %q, want %q", s, got, want)
		}
		if got := Unescape(want); got != s {
			t.Errorf("Unescape(%q) = %q, want %q", want, got, s)
		}
	}
	// Unescape leaves sequences alone that Escape cannot have made.
	for _, s := range []string{"\x00", "a\x00", "\x00g0", "\x00e", "\x00\x00"} {
		if got := Unescape(s); got != s {
			t.Errorf("Unescape(%q) = %q", s, got)
		}
	}
}

// Whatever the bytes, they come back, and what lies between is text.
func TestAnyBytes(t *testing.T) {
	type message struct {
		S String         `json:"s"`
		L Strings        `json:"l"`
		M map[int]String `json:"m"`
	}
	round := func(a, b, c []byte, plain string) bool {
		// Bytes at random are hardly ever near a sequence that is one.
		s := string(a) + plain + string(b)
		in := message{String(s), Strings{string(c), s, ""}, map[int]String{3: String(c)}}
		text, err := json.Marshal(in)
		if err != nil || !utf8.Valid(text) || !utf8.ValidString(Escape(s)) {
			t.Logf("%q: %v", text, err)
			return false
		}
		var out message
		if err := json.Unmarshal(text, &out); err != nil {
			t.Log(err)
			return false
		}
		return reflect.DeepEqual(in, out) && Unescape(Escape(s)) == s
	}
	if err := quick.Check(round, &quick.Config{MaxCount: 5000}); err != nil {
		t.Error(err)
	}
}

// Messages look as they would with plain strings, and none is not an empty list.
func TestPlainStringsAreAsBefore(t *testing.T) {
	type plain struct {
		S string
		L []string
	}
	type kept struct {
		S String
		L Strings
	}
	for _, s := range []plain{{}, {"a<b>&\u2028", []string{}}, {"zoë", []string{"-x", "", strings.Repeat("y", 99)}}} {
		want, _ := json.Marshal(s)
		got, err := json.Marshal(kept{String(s.S), s.L})
		if err != nil || string(got) != string(want) {
			t.Errorf("%s (%v), want %s", got, err, want)
		}
		var back kept
		if err := json.Unmarshal(want, &back); err != nil || back.S != String(s.S) || !reflect.DeepEqual([]string(back.L), s.L) {
			t.Errorf("%s: %+v, %v", want, back, err)
		}
	}
}

// FuzzEscape: whatever bytes a string has, it is text when escaped, and comes back. Whatever text stands in a file, it is read
// without a panic, and as no more bytes than it has.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "plain", "x\xe9y", "\u0000e9", "\u0000", "\u0000zz", "zo\u00eb\xff\u0000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if e := Escape(s); !utf8.ValidString(e) || Unescape(e) != s {
			t.Fatalf("%q is escaped as %q, and that read as %q", s, e, Unescape(e))
		}
		if u := Unescape(s); len(u) > len(s) {
			t.Fatalf("%q is read as %q", s, u)
		}
	})
}
