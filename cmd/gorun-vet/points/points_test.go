package points

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestReports(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), Analyzer, "live", "lacks")
}
