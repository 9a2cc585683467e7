package points

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestReports(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), Analyzer, "live", "lacks")
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
