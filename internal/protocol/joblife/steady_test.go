package joblife

import "testing"

// TestSteady: a job that was ordered to end goes on no more, even before its life has an ending.
func TestSteady(t *testing.T) {
	for name, j := range map[string]*Job{
		"to be ended": {life: &life{}, end: &Verdict{}},
		"judged":      {life: &life{}, verdict: &Verdict{}},
		"killed":      {life: &life{}, obeyed: true},
	} {
		if j.Steady() {
			t.Errorf("%s: the job goes on", name)
		}
	}
	if j := (&Job{life: &life{}}); !j.Steady() {
		t.Error("a job that runs does not go on")
	}
}
