package points

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestReports(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), Analyzer, "live", "lacks", "arrays", "carried")
}

// What a package does to what it is given, its importers know. These packages are of no module, so their sources have names that go does not read.
func TestPackages(t *testing.T) {
	files := map[string]string{}
	for to, from := range map[string]string{
		"parts/parts.go": "two/parts.go.txt", "between/between.go": "two/between.go.txt",
		crPath + "/cr.go": "src/" + crPath + "/cr.go", mpiPath + "/mpi.go": "src/" + mpiPath + "/mpi.go",
	} {
		b, err := os.ReadFile(filepath.Join(analysistest.TestData(), from))
		if err != nil {
			t.Fatal(err)
		}
		files[to] = string(b)
	}
	dir, clean, err := analysistest.WriteFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	defer clean()
	analysistest.Run(t, dir, Analyzer, "parts", "between")
}

// What is inserted would not compile, or not restart: it is reported, and not fixed.
func TestUnfixable(t *testing.T) {
	all = true
	defer func() { all = false }()
	for _, r := range analysistest.Run(t, analysistest.TestData(), Analyzer, "several", "hidden", "label", "shadowed") {
		for _, d := range r.Diagnostics {
			if len(d.SuggestedFixes) > 0 {
				t.Errorf("%s: %q is fixed by %q", r.Pass.Pkg.Path(), d.Message, d.SuggestedFixes[0].TextEdits)
			}
		}
	}
}
