package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// numbers makes the input of sumInput, in a file, too.
func numbers(t *testing.T) (file, text string) {
	var lines strings.Builder
	fmt.Fprintln(&lines, 60)
	for n := range 60 {
		fmt.Fprintf(&lines, "%5000d\n", n+1) // more than a pipe and the program's buffer hold
	}
	file = filepath.Join(t.TempDir(), "numbers")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, lines.String()
}

// Rank 0 reads what it would have read without a death, wherever the job goes on from
// and whatever standard input is.
func TestInputAfterRestart(t *testing.T) {
	file, lines := numbers(t)
	for _, how := range []string{"from the start", "-cr=self", "-cr=native", "-cr=auto"} {
		for from, in := range map[string]string{"a pipe": lines, "a file": "@" + file} {
			t.Run(how+" "+from, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t)
				args, folder := []string{"-np", "2", "-restarts", "1"}, ""
				if how != "from the start" {
					folder = h.ckpt
					args = append(args, how)
				}
				p := h.start(in, append(args, self(t), asRank, "sum", folder, filepath.Join(t.TempDir(), "begun"))...)
				if folder != "" {
					p.out.wait(t, "twenty\n", 1)
					h.must("checkpoint")
				}
				if code := p.code(); code != 0 || !strings.HasSuffix(p.out.String(), "twenty\nsum 1830\n") || strings.Count(p.err.String(), "restarting from") != 1 {
					t.Errorf("exit %d, %q\n%s", code, p.out, p.err)
				}
				h.nothingLeft()
			})
		}
	}
}

// A job that is checkpointed and stopped leaves a file where a restart by hand that
// shares it reads on.
func TestInputAfterRestartByHand(t *testing.T) {
	h := newHouse(t)
	file, _ := numbers(t)
	begun := filepath.Join(t.TempDir(), "begun") // nobody is to be killed
	if err := os.WriteFile(begun, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.in, err = os.Open(file); err != nil {
		t.Fatal(err)
	}
	defer h.in.Close()
	p := h.start("@", "-np", "2", "-cr=native", self(t), asRank, "sum", h.ckpt, begun)
	p.out.wait(t, "twenty\n", 1)
	h.must("checkpoint", "-stop")
	if code := p.code(); code != 75 {
		t.Fatalf("exit %d: %s", code, p.err)
	}
	p = h.start("@", "restart", "latest")
	if code := p.code(); code != 0 || !strings.Contains(p.out.String(), "sum 1830\n") || !strings.Contains(p.err.String(), "bytes of standard input") {
		t.Errorf("exit %d, %q\n%s", code, p.out, p.err)
	}
	h.nothingLeft()
}

// A file is left where rank 0 has read to, as a program leaves it that is run without gorun: the loop of a shell
// (while read x; do gorun ...; done < list) goes on with its next line.
func TestInputIsLeftWhereItWasRead(t *testing.T) {
	file, text := numbers(t)
	for script, want := range map[string]int{
		"exit 0":                    0,
		"exec <&-; echo closed":     0,
		"head -c 3 > /dev/null":     3,
		"head -c 100000 >/dev/null": 100_000, // more than the pipe holds
		"cat > /dev/null":           len(text),
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			h.in = f
			p := h.start("@", "-np", "2", "sh", "-c", script)
			if code := p.code(); code != 0 {
				t.Fatalf("exit %d: %s", code, p.err)
			}
			if at, err := f.Seek(0, io.SeekCurrent); err != nil || at != int64(want) {
				t.Errorf("the file stands at %d, want %d: %v", at, want, err)
			}
		})
	}
}
