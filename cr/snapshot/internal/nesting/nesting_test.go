package nesting

import (
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func TestShallow(t *testing.T) {
	deep := strings.Repeat("[", 20)
	for text, want := range map[string]bool{
		"a = [[1], [2]]\n[b]\n[[c]]\n": true, "a = " + deep: false, `a = "` + deep + `"`: true, "a = '''\n" + deep + "'''": true, "# " + deep: true,
		strings.Repeat("a.", 200) + "a = 1": false, "x = '''a''''\na = " + deep: false, strings.Repeat("[[programs]]\na = 1\n", 1000): true,
	} {
		if got := Shallow([]byte(text)); got != want {
			t.Errorf("%.60q: %v", text, got)
		}
	}
}

// FuzzShallow: the parser comes to an end with whatever passes.
func FuzzShallow(f *testing.F) {
	f.Add([]byte("a = '''[['''\nb = \"\\\"[\"\n[c.d]\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		if Shallow(p) {
			var v any
			_ = toml.Unmarshal(p, &v)
		}
	})
}
