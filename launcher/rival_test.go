package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// writerImager is a back-end whose images have one output file each.
type writerImager struct {
	Imager
	files []string
}

func (w *writerImager) Name() string                           { return "writer" }
func (w *writerImager) Outputs(image string) ([]string, error) { return w.files, nil }
func (w *writerImager) Shared(images []string) error {
	if len(w.files) == 0 {
		return nil
	}
	return fmt.Errorf("%s, of %d images", w.files[0], len(images))
}

// A snapshot that cannot be restarted because of what its ranks write to is told of
// when it is taken.
func TestSharedOutputs(t *testing.T) {
	w := &writerImager{}
	w.register(t)
	s := &snapshot.Snapshot{Schema: &snapshot.Schema{Sequence: 7, NP: 2, Backend: "writer", Images: make([]snapshot.Image, 2)}}
	if warn := sharedOutputs(s); warn != "" {
		t.Errorf("nothing is shared: %q", warn)
	}
	w.files = []string{"/data/log"}
	if warn := sharedOutputs(s); !strings.Contains(warn, "snapshot 7") || !strings.Contains(warn, "/data/log, of 2 images") {
		t.Errorf("%q", warn)
	}
	s.Schema.Backend = backendSelf
	if warn := sharedOutputs(s); warn != "" {
		t.Errorf("portable images: %q", warn)
	}
}

// register makes w known while the test runs.
func (w *writerImager) register(t *testing.T) {
	imagers.Lock()
	before := imagers.all
	imagers.all = append(before[:len(before):len(before)], w)
	imagers.Unlock()
	t.Cleanup(func() { imagers.Lock(); imagers.all = before; imagers.Unlock() })
}

// A restart is refused while the job still runs here, by name of what it writes to.
func TestNoRival(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	w := &writerImager{}
	w.register(t)
	from := &snapshot.Snapshot{Schema: &snapshot.Schema{Job: "job-1", NP: 2, Backend: "writer", Images: make([]snapshot.Image, 2)}}
	h := &head{id: "job-1", opt: Options{From: from, Files: FilesRefuse}}
	try := func(record *Record) error {
		t.Helper()
		dir, lock, err := newControlDir(ControlRoot(), "life")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(filepath.Dir(dir))
		defer lock.Close()
		if err := record.write(dir); err != nil {
			t.Fatal(err)
		}
		return h.noRival()
	}
	other := &Record{Job: "job-1", Incarnation: "life", PID: 1}
	if err := try(other); err != nil {
		t.Errorf("without an output file: %v", err)
	}
	w.files = []string{"/data/log"}
	err := try(other)
	if err == nil {
		t.Fatal("not refused")
	}
	for _, want := range []string{"job-1", "pid 1", "/data/log", "gorun kill job-1", "-files copy"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if err := try(&Record{Job: "job-2", PID: 1}); err != nil {
		t.Errorf("another job: %v", err)
	}
	if err := try(&Record{Job: "job-1", PID: os.Getpid()}); err != nil {
		t.Errorf("this job itself: %v", err)
	}
	h.opt.Files = FilesKeep
	if err := try(other); err != nil {
		t.Errorf("with -files keep: %v", err)
	}
}
