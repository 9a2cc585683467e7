package criu

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// images writes one image for each state.
func images(t *testing.T, states ...State) []string {
	t.Helper()
	dir := t.TempDir()
	files := filepath.Join(dir, "files")
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, "core.img"), []byte("core"), 0o600); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for rank := range states {
		path := filepath.Join(dir, "image"+string(rune('0'+rank)))
		if _, err := pack(image.Path(path), files, &states[rank], testMeta(), image.Options{}); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// freePID is beyond every pid_max.
const freePID = 1 << 30

func TestCheckRestart(t *testing.T) {
	b := backend(t, "good")
	self, _ := os.Executable()
	mine := State{PID: freePID, Program: self, Socket: "socket:[1]"}
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	writes := mine
	writes.Files = []File{{Path: log, Size: 3}}
	if err := b.CheckRestart(image.Paths(images(t, writes, mine)), whole.FilesRefuse); err != nil {
		t.Error(err)
	}
	for want, err := range map[string]error{
		"ranks 0 and 1 write to " + log:          b.CheckRestart(image.Paths(images(t, writes, writes)), whole.FilesRefuse),
		"rank 0: criu opens files where":         b.CheckRestart(image.Paths(images(t, mine)), whole.FilesCopy),
		"rank 0: criu takes the program from wh": b.CheckRestart(image.Paths(images(t, State{PID: freePID})), whole.FilesRefuse),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := backend(t, "broken").CheckRestart(image.Paths(images(t, mine)), whole.FilesRefuse); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}

func TestDescribe(t *testing.T) {
	var b Backend
	facts, err := b.Describe(images(t, State{PID: 7, Program: "/bin/heat", Files: []File{{Path: "/log", Size: 3}}})[0])
	want := []whole.Fact{{Name: "process id", Value: "7"}, {Name: "program", Value: "/bin/heat"}, {Name: "output file", Value: "/log, 3 bytes"}}
	if err != nil || len(facts) != len(want) {
		t.Fatalf("%v, %v", facts, err)
	}
	for i := range want {
		if facts[i] != want[i] {
			t.Errorf("%v, want %v", facts[i], want[i])
		}
	}
}

// TestRestoreUnread: what the rank had not read is handed on.
func TestRestoreUnread(t *testing.T) {
	tr := newTracer(t, backend(t, "restoring"))
	self, _ := os.Executable()
	o, _, _ := ends(t)
	o.Image = image.Path(images(t, State{PID: freePID, Program: self, Socket: "socket:[1]", Unread: []byte("rest")})[0])
	if r, err := tr.Restore(o); err != nil || string(r.Unread) != "rest" {
		t.Errorf("%+v, %v", r, err)
	}
}
