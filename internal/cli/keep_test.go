package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/testenv"
)

// Of snapshots that a job takes by itself it keeps two without -keep, and none when it has ended well. What somebody asks for stays.
func TestKeepsTwoUntilTheEnd(t *testing.T) {
	for _, keep := range []string{"", "3"} {
		t.Run("-keep "+keep, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			dir := t.TempDir()
			end, file := filepath.Join(dir, "end"), filepath.Join(dir, "id")
			args := []string{"-v", "-np", "2", "-cr", "-jobid-file", file, "-ckpt-every", "20ms"}
			if keep != "" {
				args = append(args, "-keep", keep)
			}
			p := h.start("", append(args, self(t), asRank, "until", end)...)
			id := h.jobID(p, file)
			if keep == "" {
				p.err.wait(t, "the newest 2 snapshots are kept, until the job has ended well, and those of gorun checkpoint", 1)
			}
			asked := filepath.Dir(strings.TrimSpace(h.must("checkpoint", id)))
			p.err.wait(t, ": committed", strings.Count(p.err.String(), ": committed")+5)
			testenv.Until(t, func() string {
				if out := h.must("snapshots", id); strings.Count(out, "\n")-1 > 4 { // with one that is just removed
					return out
				}
				return ""
			})
			if err := os.WriteFile(end, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if code := p.code(); code != 0 {
				t.Fatalf("exit %d: %s", code, p.err)
			}
			left, err := filepath.Glob(filepath.Join(h.ckpt, id, "*", "schema.toml"))
			if err != nil || keep == "" && (len(left) != 1 || filepath.Dir(left[0]) != asked) || keep == "3" && len(left) != 3 {
				t.Errorf("left are %q, %v; asked for was %s", left, err, asked)
			}
			h.nothingLeft()
		})
	}
}
