package bench

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestReadLines(t *testing.T) {
	got, err := ReadLines("a launcher's greeting\n" + Header + "\npingpong,8,2e-06,1e-06,3e-06\nwindow,0,1,1,1\n")
	want := []Line{{"pingpong", 8, 2e-6, 1e-6, 3e-6}, {"window", 0, 1, 1, 1}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "hello\n", Header + "\na,b,c,d,e\n", Header + "\nx,1,2,3\n", Header + "\nx,1,2,3,y\n"} {
		if _, err := ReadLines(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// A compiler that is ended before it has removed its folder leaves none, neither
// in the folder of the programs nor in that of temporary files.
func TestBuildInterrupted(t *testing.T) {
	tools, dir, tmp := t.TempDir(), t.TempDir(), t.TempDir()
	script := "#!/bin/sh\n[ $1 = list ] && exec pwd\nmkdir ${GOTMPDIR:-$TMPDIR}/go-build1 && kill -INT $$\n"
	if err := os.WriteFile(filepath.Join(tools, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", tmp)
	t.Setenv("GOTMPDIR", "")
	_, one := Build(dir, "gorun", "cmd/gorun")
	_, other := BuildNested(dir, "plot", "benchmarks/plot")
	for _, err := range []error{one, other} {
		if err == nil || !strings.Contains(err.Error(), "signal: interrupt") {
			t.Errorf("error %v", err)
		}
	}
	for _, dir := range []string{dir, tmp} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
	}
}

// A command that does not end is ended with all its children, and said to be.
func TestOutputLimit(t *testing.T) {
	_, err := Output(t.Context(), 50*time.Millisecond, nil, "/bin/sh", "-c", "sleep 1000 & wait")
	if err == nil || !strings.Contains(err.Error(), "not finished after") {
		t.Errorf("error %v", err)
	}
}

func TestOutput(t *testing.T) {
	out, err := Output(t.Context(), time.Minute, []string{"A=7"}, "/bin/sh", "-c", "echo $A")
	if err != nil || out != "7\n" {
		t.Errorf("%q, %v", out, err)
	}
	_, err = Output(t.Context(), time.Minute, nil, "/bin/sh", "-c", "echo why >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "why") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v", err)
	}
}

// An interrupt ends a command as the limit does.
func TestOutputInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Output(ctx, time.Minute, nil, "/bin/sh", "-c", "sleep 1000"); err == nil {
		t.Error("no error")
	}
}
