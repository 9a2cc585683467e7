package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPointsFilesExport: snapshots fall at every 5th Point. When a rank is killed, the files of cr.File go back with the
// ranks, and the cut off lines are listed. Variables of the newest snapshot are exported.
func TestPointsFilesExport(t *testing.T) {
	h := newHouse(t)
	dir, out := t.TempDir(), t.TempDir()
	_, errs, code := h.gorun("-np", "2", "-cr", "-ckpt-points", "5", "-keep", "2", "-restarts", "1", "-ckpt-dir", h.ckpt, self(t), asRank, "log", dir, "40", h.ckpt)
	if code != 0 || !strings.Contains(errs, "restarting from snapshot") {
		t.Fatalf("exit %d, %s", code, errs)
	}
	for rank := range 2 {
		var want strings.Builder
		for i := range 40 {
			fmt.Fprintf(&want, "step %d\n", i)
		}
		if b, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(rank))); err != nil || string(b) != want.String() {
			t.Errorf("rank %d has written %q (%v)", rank, b, err)
		}
	}
	tails, err := filepath.Glob(filepath.Join(dir, "*-tail"))
	if listed := h.must("snapshots", "-tails"); err != nil || len(tails) == 0 || !strings.Contains(listed, tails[0]) {
		t.Errorf("tails %q are listed as %q", tails, listed)
	}
	images, err := filepath.Glob(filepath.Join(h.ckpt, "*", "*", "rank-00001.img"))
	if err != nil || len(images) == 0 || len(images) > 2 {
		t.Fatal(images, err)
	}
	for _, path := range images {
		m := regexp.MustCompile(`point: +(\d+)`).FindStringSubmatch(h.must("image", "inspect", path))
		if n, err := strconv.Atoi(m[1]); err != nil || n%5 > 1 { // 1: it was restarted, at the Point that counts as its first
			t.Errorf("%s was taken at Point %s", path, m[1])
		}
	}
	schema := filepath.Join(filepath.Dir(images[0]), "schema.toml")
	for _, try := range []struct {
		args []string
		want []string
	}{
		{[]string{"-format", "npy"}, []string{"global/field.npy", "rank-00000/i.npy", "rank-00000/values.npy", "rank-00001/i.npy", "rank-00001/values.npy"}},
		{[]string{"-format=hdf5", "-rank", "1"}, []string{"rank-00001.h5"}},
		{[]string{"-format=hdf5"}, []string{"global.h5", "rank-00000.h5", "rank-00001.h5"}},
		{[]string{"-rank", "0", "-name", "values"}, []string{"rank-00000/values.npy"}},
	} {
		to := filepath.Join(out, strconv.Itoa(len(try.args)))
		text := h.must(slices.Concat([]string{"image", "export", schema}, try.args, []string{"-o", to})...)
		for i, name := range try.want {
			try.want[i] = filepath.Join(to, name)
		}
		if got := strings.Fields(text); !slices.Equal(got, try.want) {
			t.Errorf("%q has written %q, want %q", try.args, got, try.want)
		}
		for _, name := range try.want {
			if st, err := os.Stat(name); err != nil || st.Size() < 100 {
				t.Errorf("%s: %v", name, err)
			}
		}
		if h5dump, err := exec.LookPath("h5dump"); err == nil && strings.HasSuffix(try.want[0], ".h5") {
			set, says := "/values", "( 3 )"
			if strings.HasSuffix(try.want[0], "global.h5") {
				set, says = "/field", "(0,0): 0, 1,\n   (1,0): 2, 3,\n   (2,0): 10, 11,\n   (3,0): 12, 13,\n   (4,0): 14, 15\n"
			}
			if b, err := exec.Command(h5dump, "-d", set, try.want[0]).CombinedOutput(); err != nil || !strings.Contains(string(b), says) {
				t.Errorf("h5dump: %v, %s", err, b)
			}
		}
	}
	for says, args := range map[string][]string{
		"no variable \"x\"":   {"image", "export", schema, "-name", "x", "-o", out},
		"has 2 ranks":         {"image", "export", schema, "-rank", "2", "-o", out},
		"known are npy":       {"image", "export", schema, "-format", "csv", "-o", out},
		"-o DIR":              {"image", "export", schema},
		"not numbers: string": {"image", "export", schema, "-name", "title", "-o", out},
		"needs portable":      {"-cr=native", "-ckpt-points", "5", "ls"},
		"-ckpt-points needs":  {"-ckpt-points", "5", "ls"},
		"a number of Points":  {"-cr", "-ckpt-points", "-1", "ls"},
	} {
		if _, errs, code := h.gorun(args...); code == 0 || !strings.Contains(errs, says) {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
	if left, err := filepath.Glob(filepath.Join(out, "*", "*.part")); err != nil || len(left) > 0 {
		t.Error(errors.Join(err, fmt.Errorf("left behind: %q", left)))
	}
	h.nothingLeft()
}
