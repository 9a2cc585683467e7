package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that docs/levels.md names are there.
func TestLevelsPage(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "levels.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)` \\(([\\w/]+)\\)")
	lines := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| elsewhere") {
			continue
		}
		lines++
		tests := named.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 || strings.Count(line, "`Test") != len(tests) {
			t.Errorf("names no test, or one without its package: %s", line)
		}
		for _, m := range tests {
			if !hasTest(t, filepath.Join(root, m[2]), m[1]) {
				t.Errorf("there is no %s in %s: %s", m[1], m[2], line)
			}
		}
	}
	if lines < 20 {
		t.Errorf("%d lines", lines)
	}
}

// hasTest reports whether a package has a test.
func hasTest(t *testing.T, dir, name string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(src), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
