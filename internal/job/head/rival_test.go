package head

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native"
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
)

// writerImager is a back-end whose images have one output file each.
type writerImager struct {
	whole.Imager
	files []string
}

func (w *writerImager) Name() string                           { return "writer" }
func (w *writerImager) Outputs(image.Source) ([]string, error) { return w.files, nil }

// writer is registered for good: a back-end cannot be taken back.
var writer = &writerImager{}

func init() {
	whole.Register(native.Imager{}) // the default
	whole.Register(writer)
}

// A restart is refused while the job still runs here.
func TestNoRival(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("GORUN_REALM", dir)
	from := &snapshot.Snapshot{Schema: &snapshot.Schema{Job: "job-1", NP: 2, Backend: "writer", Images: make([]snapshot.Image, 2)}}
	h := &head{id: "job-1", opt: spec.Options{From: from, Files: whole.FilesRefuse}}
	try := func(record *control.Record) error {
		t.Helper()
		dir, lock, err := control.NewFolder(control.Places()[0], "life")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(filepath.Dir(dir))
		defer lock.Close()
		if err := record.Write(dir); err != nil {
			t.Fatal(err)
		}
		return h.noRival()
	}
	writer.files = []string{"/data/log"}
	other := &control.Record{Job: "job-1", Incarnation: "life", PID: 1, Realm: dir}
	err := try(other)
	if err == nil {
		t.Fatal("not refused")
	}
	for _, want := range []string{"job-1", "pid 1", "/data/log", "gorun kill life", "-files copy"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if err := try(&control.Record{Job: "job-2", PID: 1, Realm: dir}); err != nil {
		t.Errorf("another job: %v", err)
	}
	h.opt.Latest = true
	if err := try(&control.Record{Job: "job-2", PID: 1, Line: h.line(), Realm: dir}); err == nil {
		t.Error("a job of the same line is not refused")
	}
}
