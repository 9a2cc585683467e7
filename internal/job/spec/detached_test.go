package spec

import "testing"

// Names of the output of detached jobs are known again, and no others.
func TestOutputName(t *testing.T) {
	const job = "0196f0c2-5c3e-7d1a-9b1e-0123456789ab"
	for n := 1; n < 4; n++ {
		if name := OutputName(job, n); !IsOutput(name) {
			t.Errorf("%s is taken for a file of the program", name)
		}
	}
	for _, name := range []string{"gorun-results.out", "out", "gorun-.out", "gorun-" + job, job + ".out", "my-gorun-1.out"} {
		if IsOutput(name) {
			t.Errorf("%s is taken for one of gorun", name)
		}
	}
}
