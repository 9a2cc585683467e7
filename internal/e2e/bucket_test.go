package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/s3test"
)

// TestNoBucket: a bucket that is not there is told at the start and once more, with the remedy. The job goes on; its other level gets snapshots.
func TestNoBucket(t *testing.T) {
	h := newHouse(t)
	h.bucket()
	program := solver(shortRun...)
	want := digest(t, h.must(append([]string{"-np", "2"}, program...)...))
	out, errs, code := h.gorun(append([]string{"-v", "-np", "2", "-cr=self", "-ckpt-every", "dir=50ms,s3=100ms", "-keep", "0", "-ckpt-store", "s3://elsewhere/e2e"}, append(program, "-slow", "10ms")...)...)
	if code != 0 || digest(t, out) != want {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if !strings.Contains(errs, "copies to level s3 will fail if this stays so") || strings.Count(errs, "(make the bucket, or name another)") != 2 || !strings.Contains(errs, "checkpoint: committed") {
		t.Error(errs)
	}
	h.clean()
}

// TestNoDeleting: who may write to a bucket and not delete there has all of it told once, however many snapshots are taken. When it may, what was left goes.
func TestNoDeleting(t *testing.T) {
	h := newHouse(t)
	srv, flags := h.bucket()
	srv.Break(func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request)) {
		if r.Method == http.MethodDelete || r.Method == http.MethodPost && r.URL.Query().Has("delete") {
			s3test.Refuse(w, http.StatusForbidden, "AccessDenied", "nobody deletes here")
			return
		}
		serve(w, r)
	})
	program := solver(shortRun...)
	want := digest(t, h.must(append([]string{"-np", "2"}, program...)...))
	args := append([]string{"-v", "-np", "2", "-cr=self", "-ckpt-every", "50ms", "-keep", "1"}, flags...)
	out, errs, code := h.gorun(append(args, append(program, "-slow", "20ms")...)...)
	if code != 0 || digest(t, out) != want {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	taken, told := strings.Count(errs, "checkpoint: committed"), strings.Count(errs, "-keep: ")
	if taken < 3 || told < 1 || told > 2 || !strings.Contains(errs, "nobody deletes here (AWS_ACCESS_KEY_ID") {
		t.Errorf("%d snapshots, told %d times: %s", taken, told, errs)
	}
	if _, errs, code := h.gorun("snapshots", "-prune", "-keep", "1"); code == 0 || strings.Count(errs, "nobody deletes here") > 2 || !strings.Contains(errs, "more of its snapshots") {
		t.Errorf("exit %d, %s", code, errs)
	}
	srv.Break(nil)
	h.must("snapshots", "-prune", "-keep", "1")
	if left := images(srv); len(left) != 2 {
		t.Errorf("%d images, those of one snapshot of 2 ranks are wanted: %q", len(left), left)
	}
	h.clean()
}

// TestTwoInBucket: two jobs have one bucket and one prefix. Each prunes its own snapshots, and the end of one leaves the other to be restarted.
func TestTwoInBucket(t *testing.T) {
	h := newHouse(t)
	srv, flags := h.bucket()
	program := solver(shortRun...)
	want := digest(t, h.must(append([]string{"-np", "2"}, program...)...))
	args := append(append([]string{"-np", "2"}, flags...), append(program, "-slow", "10ms")...)
	var schemas, jobs []string
	for range 2 {
		schema := h.stopped("-cr=self", append([]string{"-keep", "1"}, args...))
		schemas, jobs = append(schemas, schema), append(jobs, readSchema(t, schema).Job)
	}
	h.must("snapshots", "-remove", jobs[0])
	for _, key := range srv.Keys() {
		if !strings.Contains(key, jobs[1]) {
			t.Errorf("left of the job that was removed: %s", key)
		}
	}
	h.must("snapshots", "-verify", schemas[1])
	if got := digest(t, h.must("restart", "-ckpt-every", "50ms", "-keep", "1", schemas[1])); got != want {
		t.Errorf("digest %s, undisturbed %s", got, want)
	}
	h.must("snapshots", "-remove", jobs[1])
	if left := srv.Keys(); len(left) > 0 || srv.Uploads() > 0 {
		t.Errorf("left: %q and %d uploads", left, srv.Uploads())
	}
	h.clean()
}
