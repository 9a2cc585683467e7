package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/internal/job/program"
)

// Several programs are one world, which is checkpointed, killed and restarted like that of one program.
func TestSeveralPrograms(t *testing.T) {
	for _, cr := range []string{"self", "native"} {
		t.Run(cr, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			dir := t.TempDir()
			end, file, other := filepath.Join(dir, "end"), filepath.Join(dir, "id"), filepath.Join(dir, "other")
			exe, err := os.ReadFile(self(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(other, append(exe, 0), 0o755); err != nil { // another program, by its bytes
				t.Fatal(err)
			}
			p := h.start("", "-v", "-cr="+cr, "-restarts", "1", "-jobid-file", file, "-np", "1", self(t), asRank, "until", end, ":", "-np", "2", other, asRank, "until", end)
			id := h.jobID(p, file)
			_, ranks := p.family()
			for i, want := range []string{self(t), other, other} {
				if is, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", ranks[i])); err != nil || is != want {
					t.Errorf("rank %d runs %s, %v", i, is, err)
				}
			}
			if out := h.must("ps"); !strings.Contains(out, "-np 1 "+filepath.Base(self(t))) || !strings.Contains(out, " : -np 2 other "+asRank+" until") {
				t.Errorf("ps says\n%s", out)
			}
			schema := strings.TrimSpace(h.must("checkpoint", id))
			if cr == "native" { // it is kept with the snapshot
				if err := os.Remove(other); err != nil {
					t.Fatal(err)
				}
			}
			syscall.Kill(ranks[2], syscall.SIGKILL)
			p.err.wait(t, "restarting from snapshot 1", 1)
			if err := os.WriteFile(end, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if code := p.code(); code != 0 {
				t.Fatalf("exit %d: %s", code, p.err)
			}
			if _, errs, code := h.gorun("restart", "-np", "4", schema); code != 2 || !strings.Contains(errs, "-np 4: ") {
				t.Errorf("on 4 ranks: exit %d, %s", code, errs)
			}
			if _, errs, code := h.gorun("restart", schema); code != 0 {
				t.Errorf("restart: exit %d, %s", code, errs)
			}
			h.nothingLeft()
		})
	}
}

func TestSeveralProgramsMisused(t *testing.T) {
	for says, args := range map[string][]string{
		"no PROGRAM behind a colon":      {"true", ":"},
		"no PROGRAM between two colons":  {"true", ":", "-np", "2", ":", "true"},
		"a program has -np only":         {"true", ":", "-cr", "true"},
		"-np 0: a program has at least":  {"true", ":", "-np", "0", "true"},
		"nosuch: not found in PATH":      {"true", ":", "nosuch"},
		"several programs (:) are exec":  {"true", ":", "rank_test_package"},
		"gorun's word for it is -env":    {"-x", "PATH", "true"},
		"gorun's word for it is -hosts ": {"--host", "a,b", "true"},
		"gorun's word for it is -param":  {"--mca", "btl", "tcp", "true"},
		"gorun's word for it is -bind":   {"--bind-to", "core", "true"},
		"gorun's word for it is -map ":   {"--map-by", "core", "true"},
		"(cd DIR && gorun":               {"-wdir", "/tmp", "true"},
	} {
		if i := slices.Index(args, "rank_test_package"); i >= 0 {
			args[i] = goFolder(t)
		}
		if _, errs, code := say(args...); code == 0 || !strings.Contains(errs, says) {
			t.Errorf("%q: exit %d, %q, want %q", args, code, errs, says)
		}
	}
	for name, to := range alike {
		if others[to] == "" || others[name] != "" {
			t.Errorf("-%s is like -%s, of which nothing is known", name, to)
		}
	}
}

// goFolder is a folder with a Go program.
func goFolder(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What the ranks are told of several programs says which are meant, and nothing else is taken for it.
func TestParts(t *testing.T) {
	part := rapid.Custom(func(t *rapid.T) program.Part {
		word := rapid.StringN(0, 5, -1)
		return program.Part{NP: rapid.IntRange(1, 9).Draw(t, "np"), Path: "/" + word.Draw(t, "path"), Args: rapid.SliceOfN(word, 0, 4).Draw(t, "args")}
	})
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(part, 1, 4).Draw(t, "parts")
		args := program.Parts("gorun", parts)
		got := program.PartsOf(args[1:])
		if !slices.EqualFunc(got, parts, func(a, b program.Part) bool {
			return a.NP == b.NP && a.Path == b.Path && slices.Equal(a.Args, b.Args)
		}) {
			t.Fatalf("%v became %v", parts, got)
		}
		cut := rapid.IntRange(1, len(args)).Draw(t, "cut")
		program.PartsOf(args[1:cut])
		program.PartsOf(rapid.SliceOf(rapid.String()).Draw(t, "other"))
	})
}
