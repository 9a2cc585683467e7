package cli

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// gorun, an agent or a rank may not open enough files. Then the error names the limit,
// how many are needed and what to do. Nothing is left behind.
func TestTooFewFiles(t *testing.T) {
	job := func(more ...string) []string { return append(more, self(t), asRank, "count", "1") }
	explained := func(errs string, limit int) bool {
		return strings.Contains(errs, fmt.Sprintf("(RLIMIT_NOFILE) is %d, about ", limit)) &&
			strings.Contains(errs, "are needed: raise it with ulimit -n") && !strings.Contains(errs, "panic")
	}
	for _, agents := range []string{"1", "2"} {
		t.Run(agents+" agents", func(t *testing.T) {
			h := newHouse(t)
			for limit := 10; limit <= 40; limit++ {
				h.nofile = limit
				_, errs, code := h.gorun(job("-np", "2", "-agents", agents)...)
				if enough := code == 0; enough && limit < 16 || !enough && (limit > 36 || !explained(errs, limit)) {
					t.Errorf("limit %d: exit %d, %s", limit, code, errs)
				}
			}
		})
	}
	t.Run("ranks", func(t *testing.T) {
		h := newHouse(t)
		lower := []string{"-np", "2", "-rpi", "tcp", "sh", "-c", `ulimit -n 8; exec "$0" "$@"`}
		if _, errs, code := h.gorun(append(lower, job()...)...); code == 0 || !explained(errs, 8) {
			t.Errorf("exit %d, %s", code, errs)
		}
	})
	t.Run("other commands", func(t *testing.T) {
		var errs strings.Builder
		if code := failed(stdio{err: &errs}, syscall.EMFILE); code == 0 || !strings.Contains(errs.String(), "raise it with ulimit -n") {
			t.Errorf("exit %d, %s", code, &errs)
		}
	})
}
