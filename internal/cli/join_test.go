package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestJoin: what can be told without another node; internal/e2e/nodes has the rest.
func TestJoin(t *testing.T) {
	h := newHouse(t)
	p, id := h.countJob(limit, "-hosts", "localhost:3")
	file := filepath.Join(t.TempDir(), "id")
	alone := h.start("", "-np", "1", "-jobid-file", file, self(t), asRank, "count", "1000000000")
	other := h.jobID(alone, file)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"join"}, 2, "which JOB?"},
		{[]string{"join", ""}, 2, "which JOB?"},
		{[]string{"join", id, "-nodes"}, 2, "-nodes"},
		{[]string{"join", id, "x"}, 2, "one JOB at a time"},
		{[]string{"join", "-node", ",", id}, 2, "a name is empty"},
		{[]string{"join", "-hosts", "a:0", id}, 2, "want a number from 1"},
		{[]string{"join", other}, 1, "it runs on this machine alone"},
		{[]string{"join", id}, 0, "all nodes of the job are up"},
		{[]string{"join", id, "-node", "localhost"}, 0, "node localhost is up already"},
		{[]string{"join", "-node", "elsewhere", id}, 1, "elsewhere is no node of the job, which has localhost: a new one joins with -hosts elsewhere"},
		{[]string{"join", id, "-hosts", "127.0.0.1:2"}, 1, "node 127.0.0.1: it is the machine that is also named localhost"},
	} {
		asked := h.start("", c.args...)
		if code := asked.code(); code != c.code || !strings.Contains(asked.err.String(), c.want) {
			t.Errorf("%q: exit %d, %q; want %d, %s", c.args, code, asked.err, c.code, c.want)
		}
	}
	if out := h.must("status", id); !strings.Contains(out, "failed since") || !strings.Contains(out, "also named localhost") {
		t.Errorf("status: %s", out)
	}
	h.must("kill", "-9", id)
	h.must("kill", "-9", other)
	p.code()
	alone.code()
	h.nothingLeft()
}
