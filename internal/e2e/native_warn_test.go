package e2e

import (
	"strings"
	"testing"
)

// TestNativeWarns takes snapshots of ranks that write to one file, which cannot be
// restarted without saying what becomes of it: the first one's taker is told, and
// the job's terminal, and nobody if the job was given a policy.
func TestNativeWarns(t *testing.T) {
	for _, policy := range []string{"refuse", "copy"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			h := nativeHouse(t)
			r, _ := h.stage(&scene{name: "common", np: 3, flags: []string{"-files", policy}})
			const warning = "warning: snapshot 1 cannot be restarted with -files refuse"
			for n := 1; n <= 2; n++ {
				_, errs, code := h.gorun("checkpoint", r.id)
				if told := strings.Contains(errs, warning) && strings.Contains(errs, "several ranks (ranks 0-2)"); code != 0 || told != (n == 1 && policy == "refuse") {
					t.Errorf("checkpoint %d: exit %d, %s", n, code, errs)
				}
			}
			h.must("kill", "-9", r.id)
			r.wait()
			if told := strings.Count(r.errs.String(), "warning: snapshot "); told != map[string]int{"refuse": 1, "copy": 0}[policy] {
				t.Errorf("the job warned %d times:\n%s", told, r.errs)
			}
		})
	}
}
